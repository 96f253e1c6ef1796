// Who may land what where: the decode node's grants, from the reservation until the sequence joins
// the batch or the attempt ends.
//
// Every question a stale or hostile peer could ask is answered here before a byte may land: unknown
// attempt, old generation, wrong nonce, layer out of range, announced twice, wrong length. An
// attempt that has ended is remembered, so that the answer is always the same.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "decode_node/core/arena.h"
#include "kv/plan/plan.h"

namespace anchorage::decode {

// What a layer's header claims.
struct LayerAnnouncement {
  AttemptId attempt;
  uint64_t nonce = 0;
  int64_t layer = 0;
  int64_t num_layers = 0;
  size_t length = 0;
  uint64_t checksum = 0;
};

struct LandingGrant {
  uint64_t nonce = 0;
  std::shared_ptr<Grant> memory;
};

// A region that is taking bytes. `token` names it until Finish.
struct RunningLanding {
  std::span<std::byte> region;
  uint64_t token = 0;
};

// Bytes that have landed and must be verified: XXH3-64 first, then the layer's own invariants.
struct LandedLayer {
  AttemptId attempt;
  int layer = 0;
  uint64_t checksum = 0;
  std::shared_ptr<Grant> memory;
};

// Thread-safe. Leases end by the injected clock; nothing here starts a thread.
class LandingTable {
 public:
  // `lease_ns`: how long an attempt may go without an announcement or a renewal.
  LandingTable(Arena& arena, const Clock& clock, int64_t lease_ns)
      : arena_(arena), clock_(clock), lease_ns_(lease_ns) {}

  // Sets the plan's bytes aside. Asked again while the attempt is landing, it renews the lease and
  // answers with the same grant. ResourceExhausted: no headroom now. AlreadyExists: it is in the
  // batch. Aborted: it, or a later generation of its request, has ended here.
  absl::StatusOr<LandingGrant> Reserve(AttemptId id, const kv::RequestPlan& plan);

  // May `length` bytes of a layer land? Renews the lease. Aborted: stale or ended attempt.
  // InvalidArgument: the header disagrees with the plan. PermissionDenied: wrong nonce.
  absl::StatusOr<RunningLanding> Announce(const LayerAnnouncement& announcement);

  // Starts the lease of an attempt that is landing anew; nothing where it is not.
  void Renew(AttemptId id);

  // The transport is done with a region. OK: the layer to verify (Verified must follow). Not OK:
  // the attempt is over; `landed` says why. Nothing when the attempt has ended meanwhile.
  std::optional<LandedLayer> Quiet(uint64_t token, const absl::Status& landed);

  // The verdict on what Quiet handed out. A bad one ends the attempt.
  void Verified(uint64_t token, const absl::Status& verdict);

  // All layers verified and the closing header checked: hands the memory over to the batch and
  // forgets the attempt as a landing. Errors as for Announce; FailedPrecondition: layers missing.
  absl::StatusOr<std::shared_ptr<Grant>> Complete(AttemptId id, uint64_t nonce);

  // Ends an attempt that is still landing. False when there is none. Its memory is free at once, or
  // in quarantine until its running transfers are quiet.
  bool Abort(AttemptId id);

  // A completed attempt has ended in the batch.
  void RememberEnded(AttemptId id);

  // Attempts whose lease has run out; they are aborted.
  std::vector<AttemptId> ExpireLeases();

  // Attempts whose landing failed since the last call, each with its reason, once.
  std::vector<std::pair<AttemptId, absl::Status>> TakeFailures();

  // Tokens of regions that are still taking bytes although their attempt's lease ran out, or it
  // ended a whole lease ago: their senders may never let them end.
  std::vector<uint64_t> OverdueTokens() const;

  int64_t landings() const;  // attempts here

 private:
  enum class LayerState : uint8_t { kAwaited, kLanding, kVerifying, kVerified };
  struct Entry {
    uint64_t nonce = 0;
    int64_t lease_end_ns = 0;
    std::shared_ptr<Grant> memory;
    std::vector<LayerState> layers;
    int64_t verified = 0;
  };
  struct Transfer {
    AttemptId attempt;
    int layer = 0;
    uint64_t checksum = 0;
    std::shared_ptr<Grant> memory;
    int64_t overdue_ns = kNever;  // from when on it should have ended
  };

  absl::StatusOr<Entry*> Find(AttemptId id, uint64_t nonce) REQUIRES(mutex_);
  absl::Status CheckNotEnded(AttemptId id) const REQUIRES(mutex_);
  void Remember(AttemptId id) REQUIRES(mutex_);
  // Its running transfers may go on for `patience_ns`.
  void End(AttemptId id, int64_t patience_ns) REQUIRES(mutex_);

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  static constexpr size_t kRememberedAttempts = 65'536;

  Arena& arena_;
  const Clock& clock_;
  const int64_t lease_ns_;
  mutable Mutex mutex_;
  uint64_t next_token_ GUARDED_BY(mutex_) = 1;
  std::unordered_map<AttemptId, Entry> entries_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Transfer> transfers_ GUARDED_BY(mutex_);
  std::vector<std::pair<AttemptId, absl::Status>> failures_ GUARDED_BY(mutex_);
  std::unordered_set<AttemptId> joined_ GUARDED_BY(mutex_);  // completed and not ended
  // Last ended generation by request, oldest forgotten first.
  std::unordered_map<uint64_t, uint32_t> ended_ GUARDED_BY(mutex_);
  std::deque<uint64_t> ended_order_ GUARDED_BY(mutex_);
};

}  // namespace anchorage::decode
