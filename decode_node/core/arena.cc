#include "decode_node/core/arena.h"

#include <sys/mman.h>

#include <utility>

#include "common/bytes.h"
#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::decode {

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_));
}

absl::StatusOr<Mapping> Mapping::Create(int64_t bytes) {
  Mapping mapping;
  if (bytes == 0) return mapping;
  void* pages = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return Exhausted("the system refused %s of memory", FormatBytes(bytes));
  mapping.data_ = static_cast<std::byte*>(pages);
  mapping.size_ = bytes;
  return mapping;
}

absl::StatusOr<std::shared_ptr<Grant>> Arena::Reserve(const kv::RequestPlan& plan) {
  {
    MutexLock lock(mutex_);
    if (plan.bytes > usage_.headroom_bytes()) {
      return Exhausted("%d bytes needed, %d bytes of headroom", plan.bytes,
                       usage_.headroom_bytes());
    }
    usage_.reserved_bytes += plan.bytes;
  }
  absl::StatusOr<Mapping> regions = Mapping::Create(plan.region_bytes);
  if (!regions.ok()) {
    MutexLock lock(mutex_);
    usage_.reserved_bytes -= plan.bytes;
    return regions.status();
  }
  return std::shared_ptr<Grant>(new Grant(*this, plan, *std::move(regions)));
}

ArenaUsage Arena::usage() const {
  MutexLock lock(mutex_);
  return usage_;
}

Grant::Grant(Arena& arena, const kv::RequestPlan& plan, Mapping regions)
    : arena_(arena),
      plan_(plan),
      layer_block_bytes_(plan.generated_block_bytes /
                         std::max<int64_t>(1, static_cast<int64_t>(plan.layers.size()))),
      regions_(std::move(regions)) {
  int64_t offset = 0;
  for (const kv::LayerPlan& layer : plan_.layers) {
    offsets_.push_back(offset);
    offset += layer.region_bytes;
  }
}

Grant::~Grant() {
  MutexLock lock(arena_.mutex_);
  arena_.usage_.used_bytes -= used_bytes_;
  arena_.usage_.quarantined_bytes -= quarantined_bytes_;
  arena_.usage_.quarantined_regions -= quarantined_regions_;
  arena_.usage_.reserved_bytes -= plan_.bytes - used_bytes_ - quarantined_bytes_;
}

std::span<std::byte> Grant::region(int layer) const {
  const size_t index = static_cast<size_t>(layer);
  return {regions_.data() + offsets_[index], static_cast<size_t>(plan_.layers[index].region_bytes)};
}

void Grant::MarkLanded(int layer) {
  const int64_t bytes = plan_.layers[static_cast<size_t>(layer)].region_bytes;
  MutexLock lock(arena_.mutex_);
  if (quarantined_bytes_ > 0) return;
  used_bytes_ += bytes;
  arena_.usage_.used_bytes += bytes;
  arena_.usage_.reserved_bytes -= bytes;
}

void Grant::Quarantine(int running_transfers) {
  MutexLock lock(arena_.mutex_);
  if (quarantined_bytes_ > 0) return;
  arena_.usage_.used_bytes -= used_bytes_;
  arena_.usage_.reserved_bytes -= plan_.bytes - used_bytes_;
  arena_.usage_.quarantined_bytes += plan_.bytes;
  arena_.usage_.quarantined_regions += running_transfers;
  used_bytes_ = 0;
  quarantined_bytes_ = plan_.bytes;
  quarantined_regions_ = running_transfers;
}

absl::Status Grant::TakeBlock() {
  if (num_blocks() >= plan_.generated_blocks) {
    return Exhausted("all %d reserved blocks of generated tokens are taken",
                     plan_.generated_blocks);
  }
  ASSIGN_OR_RETURN(Mapping block, Mapping::Create(plan_.generated_block_bytes));
  blocks_.push_back(std::move(block));
  MutexLock lock(arena_.mutex_);
  if (quarantined_bytes_ > 0) return absl::OkStatus();
  used_bytes_ += plan_.generated_block_bytes;
  arena_.usage_.used_bytes += plan_.generated_block_bytes;
  arena_.usage_.reserved_bytes -= plan_.generated_block_bytes;
  return absl::OkStatus();
}

std::byte* Grant::block(int64_t index, int layer) const {
  return blocks_[static_cast<size_t>(index)].data() + layer * layer_block_bytes_;
}

}  // namespace anchorage::decode
