// The decode node's KV memory: one budget in bytes, granted exactly, never over-committed.
//
// Each request gets one mapping that holds its layers' landing regions side by side and, on demand,
// blocks of generated tokens that were counted when it was admitted. Regions are virtual memory of
// their own, so a grant is a placement and not a subtraction: while the headroom covers a need, it
// is never refused. Memory in which a transfer is still running when its request ends is put in
// quarantine, counted, and handed back only when the transport says it is quiet.
//
//   limit = used + reserved + quarantined + headroom, at every instant, to the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "kv/plan/plan.h"

namespace anchorage::decode {

// Pages of the system's own, zeroed; move-only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // ResourceExhausted: the system refuses.
  static absl::StatusOr<Mapping> Create(int64_t bytes);

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

struct ArenaUsage {
  int64_t limit_bytes = 0;
  int64_t used_bytes = 0;         // layers that landed and blocks in use
  int64_t reserved_bytes = 0;     // granted, not yet used
  int64_t quarantined_bytes = 0;  // ended, but a transfer may still write there
  int64_t quarantined_regions = 0;

  int64_t headroom_bytes() const {
    return limit_bytes - used_bytes - reserved_bytes - quarantined_bytes;
  }
  bool operator==(const ArenaUsage&) const = default;
};

class Grant;

// Thread-safe. Must outlive its grants.
class Arena {
 public:
  explicit Arena(int64_t limit_bytes) { usage_.limit_bytes = limit_bytes; }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Sets aside plan.bytes. ResourceExhausted: more than the headroom (or the system has no pages).
  absl::StatusOr<std::shared_ptr<Grant>> Reserve(const kv::RequestPlan& plan);

  ArenaUsage usage() const;

 private:
  friend class Grant;
  mutable Mutex mutex_;
  ArenaUsage usage_ GUARDED_BY(mutex_);
};

// One request's memory. Thread-safe, except that generated blocks belong to the step loop alone.
// Destroying the last reference frees it; whoever runs a transfer into a region holds a reference,
// which is what makes quarantine safe.
class Grant {
 public:
  ~Grant();
  Grant(const Grant&) = delete;
  Grant& operator=(const Grant&) = delete;

  const kv::RequestPlan& plan() const { return plan_; }
  std::span<std::byte> region(int layer) const;

  // The layer's bytes are there and verified: reserved becomes used. Once per layer.
  void MarkLanded(int layer);

  // The request ended: what it used or reserved is counted as quarantined from now on (and is gone
  // when the last reference goes). `running_transfers` is how many regions are not quiet.
  void Quarantine(int running_transfers);

  // The next block of generated tokens: [layer][K, V][H, 32, D] bf16.
  // ResourceExhausted: all blocks that were reserved are taken, or the system has no pages.
  absl::Status TakeBlock();
  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()); }
  // Block `index`, layer `layer`.
  std::byte* block(int64_t index, int layer) const;

 private:
  friend class Arena;
  Grant(Arena& arena, const kv::RequestPlan& plan, Mapping regions);

  Arena& arena_;
  const kv::RequestPlan plan_;
  const int64_t layer_block_bytes_;
  std::vector<int64_t> offsets_;  // of each layer's region
  Mapping regions_;
  std::vector<Mapping> blocks_;
  int64_t used_bytes_ = 0;         // guarded by arena_.mutex_
  int64_t quarantined_bytes_ = 0;  // guarded by arena_.mutex_
  int64_t quarantined_regions_ = 0;
};

}  // namespace anchorage::decode
