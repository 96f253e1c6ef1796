#include "kernels/anchor.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/kernel_table.h"

namespace anchorage::kernels {
namespace {

constexpr int kMaxKappa = 255;

bool ShapesFit(const ActiveKvView& kv, const ObservedRowsView& observed, const RopeView& rope,
               int window_len) {
  return kv.num_kv_heads > 0 && kv.head_dim > 0 && kv.head_dim % 8 == 0 && kv.seq_len >= 0 &&
         kv.capacity >= kv.seq_len && window_len > 0 && window_len <= kv.seq_len &&
         observed.head_dim == kv.head_dim && observed.num_q_heads > 0 &&
         observed.num_q_heads % kv.num_kv_heads == 0 && observed.num_rows > 0 &&
         observed.num_rows <= window_len && observed.q != nullptr && observed.lse != nullptr &&
         rope.head_dim == kv.head_dim && rope.num_positions >= kv.seq_len;
}

ObservedHead HeadRows(const ObservedRowsView& observed, int num_kv_heads, int head) {
  const int group = observed.num_q_heads / num_kv_heads;
  const int64_t first = int64_t{head} * group;
  ObservedHead rows;
  rows.num_rows = observed.num_rows * group;
  rows.group = group;
  rows.head_dim = observed.head_dim;
  rows.q = observed.q + first * observed.head_dim;
  rows.lse = observed.lse + first;
  rows.out = observed.out == nullptr ? nullptr : observed.out + first * observed.head_dim;
  rows.stride = observed.num_q_heads;
  return rows;
}

RopeRows RopeFrom(const RopeView& rope, int64_t position) {
  const int64_t offset = position * (rope.head_dim / 2);
  return {rope.cos + offset, rope.sin + offset};
}

// Calls body(head, first, count) for each block of positions of each head.
template <typename Body>
void ForBlocks(int num_heads, int64_t positions, Stream& stream, const Body& body) {
  const int64_t blocks = (positions + kAnchorBlock - 1) / kAnchorBlock;
  stream.ParallelFor(num_heads * blocks, [&](int64_t task, int) {
    const int64_t first = task % blocks * kAnchorBlock;
    const int64_t count = std::min<int64_t>(kAnchorBlock, positions - first);
    body(static_cast<int>(task / blocks), first, static_cast<int>(count));
  });
}

// Average pooling in place: scores[t] = sum of the kappa values around t, ascending, over kappa.
// The ring holds the values that pooling has overwritten.
void Pool(int64_t count, int kappa, float* scores) {
  std::array<float, kMaxKappa> ring;
  const int64_t reach = kappa / 2;
  for (int64_t t = 0; t < count; ++t) {
    ring[t % kappa] = scores[t];
    float sum = 0.0f;
    for (int64_t i = std::max<int64_t>(0, t - reach); i <= t; ++i) sum += ring[i % kappa];
    const int64_t last = std::min(count - 1, t + reach);
    for (int64_t i = t + 1; i <= last; ++i) sum += scores[i];
    scores[t] = sum / static_cast<float>(kappa);
  }
}

}  // namespace

Status ScorePrefix(const ActiveKvView& kv, const ObservedRowsView& observed, const RopeView& rope,
                   int window_len, int kappa, float* scores, Stream& stream) {
  if (!ShapesFit(kv, observed, rope, window_len) || kappa <= 0 || kappa % 2 == 0 ||
      kappa > kMaxKappa) {
    return Status::kInvalidShape;
  }
  if (kv.head_dim > kAnchorMaxHeadDim) return Status::kUnsupported;
  const AnchorKernels& kernels = *ActiveKernels().anchor;
  const int64_t prefix = kv.seq_len - window_len;
  ForBlocks(kv.num_kv_heads, prefix, stream, [&](int head, int64_t first, int count) {
    const Bf16* k = kv.k + (head * kv.capacity + first) * kv.head_dim;
    kernels.score_block(HeadRows(observed, kv.num_kv_heads, head), count, k, RopeFrom(rope, first),
                        scores + head * prefix + first);
  });
  stream.ParallelFor(kv.num_kv_heads,
                     [&](int64_t head, int) { Pool(prefix, kappa, scores + head * prefix); });
  return Status::kOk;
}

Status AssignAnchors(int64_t count, int head_dim, int num_anchors, const Bf16* x,
                     const Bf16* anchors, uint16_t* idx, float* proj, Stream& stream) {
  if (count < 0 || head_dim <= 0 || head_dim % 8 != 0 || num_anchors <= 0 || num_anchors > 65536) {
    return Status::kInvalidShape;
  }
  if (head_dim > kAnchorMaxHeadDim) return Status::kUnsupported;
  const AnchorKernels& kernels = *ActiveKernels().anchor;
  ForBlocks(1, count, stream, [&](int, int64_t first, int rows) {
    kernels.assign_block(rows, head_dim, num_anchors, x + first * head_dim, anchors, idx + first,
                         proj + first);
  });
  return Status::kOk;
}

Status ResidualUtilities(const ActiveKvView& kv, const ObservedRowsView& observed,
                         const RopeView& rope, int window_len, int num_anchors,
                         const AnchorSide& key, const AnchorSide& value,
                         const ResidualWorth& key_worth, const ResidualWorth& value_worth,
                         Stream& stream) {
  if (!ShapesFit(kv, observed, rope, window_len) || observed.out == nullptr || num_anchors <= 0) {
    return Status::kInvalidShape;
  }
  if (kv.head_dim > kAnchorMaxHeadDim) return Status::kUnsupported;
  const AnchorKernels& kernels = *ActiveKernels().anchor;
  const int64_t prefix = kv.seq_len - window_len;
  const auto block_of = [&](const AnchorSide& side, const Bf16* x, int head, int64_t first) {
    return AnchoredBlock{x + (head * kv.capacity + first) * kv.head_dim,
                         side.anchors + int64_t{head} * num_anchors * kv.head_dim,
                         side.idx + head * prefix + first, side.gamma + head * prefix + first};
  };
  const auto worth_from = [](const ResidualWorth& worth, int64_t at) {
    return ResidualWorth{worth.utility + at, worth.energy + at};
  };
  ForBlocks(kv.num_kv_heads, prefix, stream, [&](int head, int64_t first, int count) {
    const int64_t at = head * prefix + first;
    kernels.utility_block(HeadRows(observed, kv.num_kv_heads, head), count,
                          block_of(key, kv.k, head, first), block_of(value, kv.v, head, first),
                          RopeFrom(rope, first), worth_from(key_worth, at),
                          worth_from(value_worth, at));
  });
  return Status::kOk;
}

}  // namespace anchorage::kernels
