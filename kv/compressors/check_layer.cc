#include "kv/compressors/check_layer.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <tuple>

#include "common/mutex.h"
#include "common/status.h"
#include "kernels/elementwise.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {
namespace {

constexpr int64_t kRowsPerTask = 256;

// Where something is, in the order in which it is reported.
struct Place {
  int64_t position = std::numeric_limits<int64_t>::max();
  Side side = Side::kKey;
  int64_t head = 0;

  bool operator<(const Place& other) const {
    return std::tie(position, side, head) < std::tie(other.position, other.side, other.head);
  }
};

// The lowest place that any thread reported.
class FirstPlace {
 public:
  void Offer(const Place& place) {
    MutexLock lock(mutex_);
    first_ = std::min(first_, place);
  }
  Place first() const { return first_; }

 private:
  Mutex mutex_;
  Place first_;
};

absl::Status CheckShapes(const LayerKv& layer, const LayerPlan& plan) {
  const kernels::ActiveKvView& kv = layer.kv;
  if (kv.num_kv_heads != plan.num_kv_heads || kv.head_dim != plan.head_dim ||
      kv.seq_len != plan.seq_len || kv.capacity < kv.seq_len) {
    return Invalid(
        "layer %d: the plan is for %d heads of %d x %d, the layer has %d of %d x %d (capacity %d)",
        layer.layer, plan.num_kv_heads, plan.seq_len, plan.head_dim, kv.num_kv_heads, kv.seq_len,
        kv.head_dim, kv.capacity);
  }
  if (layer.rope.head_dim != plan.head_dim || layer.rope.num_positions < plan.seq_len) {
    return Invalid("layer %d: the RoPE table has %d positions of %d, the layer needs %d of %d",
                   layer.layer, layer.rope.num_positions, layer.rope.head_dim, plan.seq_len,
                   plan.head_dim);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLayer(const LayerKv& layer, const LayerPlan& plan, kernels::Stream& stream) {
  if (absl::Status shapes = CheckShapes(layer, plan); !shapes.ok()) return shapes;
  const kernels::ActiveKvView& kv = layer.kv;
  const int64_t tasks_per_head = (plan.seq_len + kRowsPerTask - 1) / kRowsPerTask;
  FirstPlace bad;
  stream.ParallelFor(2 * plan.num_kv_heads * tasks_per_head, [&](int64_t task, int) {
    const Side side = task % 2 == 0 ? Side::kKey : Side::kValue;
    const int64_t head = task / 2 / tasks_per_head;
    const int64_t first = task / 2 % tasks_per_head * kRowsPerTask;
    const int64_t rows = std::min(kRowsPerTask, plan.seq_len - first);
    const kernels::Bf16* data = side == Side::kKey ? kv.k : kv.v;
    const int64_t found = kernels::FirstNonFinite(
        rows * plan.head_dim, data + (head * kv.capacity + first) * plan.head_dim);
    if (found >= 0) bad.Offer({first + found / plan.head_dim, side, head});
  });
  const Place place = bad.first();
  if (place.position == std::numeric_limits<int64_t>::max()) return absl::OkStatus();
  return Invalid("layer %d, position %d: NaN or Inf in %s of KV head %d", layer.layer,
                 place.position, SideName(place.side), place.head);
}

absl::StatusOr<CompressedLayer> NewCompressedLayer(int layer, const LayerPlan& plan) {
  CompressedLayer result;
  result.layer = layer;
  result.plan = plan;
  result.region = AlignedBuffer(static_cast<size_t>(plan.region_bytes));
  if (result.region.data() == nullptr) {
    return Exhausted("layer %d: no memory for a region of %d bytes", layer, plan.region_bytes);
  }
  return result;
}

}  // namespace anchorage::kv
