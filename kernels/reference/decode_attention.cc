#include "kernels/reference/decode_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/reference/key_code.h"
#include "kernels/reference/residual.h"

namespace anchorage::kernels::reference {
namespace {

enum class Side { kKey, kValue };

void Rotate(const RopeView& rope, int64_t position, double* x) {
  const int half = rope.head_dim / 2;
  for (int j = 0; j < half; ++j) {
    const double a = x[j];
    const double b = x[half + j];
    const double c = rope.cos[position * half + j];
    const double s = rope.sin[position * half + j];
    x[j] = a * c - b * s;
    x[half + j] = b * c + a * s;
  }
}

// Coordinate d of an anchor of a head.
double AnchorCoordinate(const CompactCacheView& cache, const CompactSide& side, int head,
                        int anchor, int d) {
  const int64_t row = int64_t{head} * cache.num_anchors + anchor;
  return std::ldexp(double{static_cast<double>(side.anchor[row * cache.head_dim + d])},
                    side.anchor_exponent[row]);
}

// The anchor of position t and its gamma.
struct Link {
  int anchor;
  double gamma;
};
Link LinkOf(const CompactCacheView& cache, const CompactSide& side, int head, int64_t t) {
  const int64_t prefix = cache.prefix_len();
  const int selected = cache.num_anchors - cache.window_len;
  if (t >= prefix) return {selected + static_cast<int>(t - prefix), 1.0};
  if (t < cache.num_pins) return {static_cast<int>(t), 1.0};

  const uint8_t* indices = side.idx + head * IndexRowBytes(prefix, cache.num_anchors);
  const uint8_t* codes = side.proj + head * ProjectionRowBytes(prefix);
  const int anchor = LoadIndex(indices, IndexBits(cache.num_anchors), t);
  double norm = 0.0;
  for (int d = 0; d < cache.head_dim; ++d) {
    const double x = AnchorCoordinate(cache, side, head, anchor, d);
    norm += x * x;
  }
  const double proj = side.proj_level[head * kNumProjectionLevels + LoadProjection(codes, t)];
  return {anchor, norm > 0.0 ? proj / std::sqrt(norm) : 0.0};
}

// Slot of position t in a stage, or -1.
int64_t SlotOf(const CompactCacheView& cache, const ResidualStage& stage, int head, int64_t t) {
  if (t >= cache.prefix_len() || stage.mask == nullptr) return -1;
  const int64_t word = head * cache.num_words() + t / 64;
  const uint64_t bit = uint64_t{1} << (t % 64);
  if ((stage.mask[word] & bit) == 0) return -1;
  return int64_t{stage.offset[head]} + stage.prefix[word] +
         std::popcount(stage.mask[word] & (bit - 1));
}

// x += s U^T lev(c).
void AddCode(int dim, const ResidualStage& stage, int64_t slot, double* x) {
  std::vector<double> residual(dim);
  for (int i = 0; i < dim; ++i) {
    residual[i] = DecodeCoordinate(dim, stage.codes + slot * (dim / 4), ToFloat(stage.scale[slot]),
                                   CodePacking::kPlanar, i);
  }
  UnrotateResidual(dim, residual.data());
  for (int i = 0; i < dim; ++i) x[i] += residual[i];
}

// x += s T^T M^T lev(c).
void AddKeyCode(const CompactCacheView& cache, int head, int64_t slot, double* x) {
  const int dim = cache.head_dim;
  const KeyCode code = {dim, cache.pair_order + int64_t{head} * dim / 2, cache.key_gain + 2 * head};
  const ResidualStage& stage = cache.key.coarse;
  std::vector<double> residual(dim);
  DecodeKey(code, stage.codes + slot * (dim / 4), ToFloat(stage.scale[slot]), CodePacking::kPlanar,
            residual.data());
  for (int i = 0; i < dim; ++i) x[i] += residual[i];
}

void AddResidual(const CompactCacheView& cache, Side side, int head, int64_t t, double* x) {
  const CompactSide& of_side = side == Side::kKey ? cache.key : cache.value;
  const int64_t slot = SlotOf(cache, of_side.coarse, head, t);
  const int64_t second = SlotOf(cache, of_side.fine, head, t);
  if (slot < 0) return;
  if (side == Side::kKey && second < 0) {
    AddKeyCode(cache, head, slot, x);
    return;
  }
  AddCode(cache.head_dim, of_side.coarse, slot, x);
  if (second >= 0) AddCode(cache.head_dim, of_side.fine, second, x);
}

// One query's softmax attention, key by key.
class Attention {
 public:
  Attention(int dim, const float* q) : dim_(dim), q_(q) {}

  template <typename T>
  void Add(const T& key_of, const T& value_of) {
    double score = 0.0;
    std::vector<double> value(dim_);
    for (int d = 0; d < dim_; ++d) {
      score += q_[d] * key_of(d);
      value[d] = value_of(d);
    }
    scores_.push_back(score / std::sqrt(static_cast<double>(dim_)));
    values_.push_back(std::move(value));
  }

  void Finish(double* out) const {
    const double largest = *std::max_element(scores_.begin(), scores_.end());
    double sum = 0.0;
    std::fill(out, out + dim_, 0.0);
    for (size_t t = 0; t < scores_.size(); ++t) {
      const double weight = std::exp(scores_[t] - largest);
      sum += weight;
      for (int d = 0; d < dim_; ++d) out[d] += weight * values_[t][d];
    }
    for (int d = 0; d < dim_; ++d) out[d] /= sum;
  }

 private:
  int dim_;
  const float* q_;
  std::vector<double> scores_;
  std::vector<std::vector<double>> values_;
};

}  // namespace

RebuiltKv Rebuild(const CompactCacheView& cache, const RopeView& rope) {
  const int dim = cache.head_dim;
  RebuiltKv rebuilt;
  rebuilt.k.resize(cache.num_kv_heads * cache.seq_len * dim);
  rebuilt.v.resize(rebuilt.k.size());
  for (int head = 0; head < cache.num_kv_heads; ++head) {
    for (int64_t t = 0; t < cache.seq_len; ++t) {
      double* k = &rebuilt.k[(head * cache.seq_len + t) * dim];
      double* v = &rebuilt.v[(head * cache.seq_len + t) * dim];
      const Link key = LinkOf(cache, cache.key, head, t);
      const Link value = LinkOf(cache, cache.value, head, t);
      for (int d = 0; d < dim; ++d) {
        k[d] = key.gamma * AnchorCoordinate(cache, cache.key, head, key.anchor, d);
        v[d] = value.gamma * AnchorCoordinate(cache, cache.value, head, value.anchor, d);
      }
      Rotate(rope, t, k);
      AddResidual(cache, Side::kKey, head, t, k);
      AddResidual(cache, Side::kValue, head, t, v);
    }
  }
  return rebuilt;
}

void DecodeAttention(const DecodeAttentionShape& shape, int64_t count,
                     const SequenceCache* sequences, const float* q, const RopeView& rope,
                     double* out) {
  const int dim = shape.head_dim;
  const int group = shape.num_q_heads / shape.num_kv_heads;
  for (int64_t i = 0; i < count; ++i) {
    const SequenceCache& cache = sequences[i];
    const bool compact = cache.prefix == SequenceCache::Prefix::kCompact;
    const RebuiltKv rebuilt = compact ? Rebuild(cache.compact, rope) : RebuiltKv{};
    const int64_t prefix = compact ? cache.compact.seq_len : cache.dense.seq_len;
    for (int q_head = 0; q_head < shape.num_q_heads; ++q_head) {
      const int head = q_head / group;
      const int64_t row = (i * shape.num_q_heads + q_head) * dim;
      Attention attention(dim, q + row);
      const auto at = [](const auto* x) { return [x](int d) { return x[d]; }; };
      const auto at_bf16 = [](const Bf16* x) { return [x](int d) { return ToFloat(x[d]); }; };
      for (int64_t t = 0; t < prefix; ++t) {
        const int64_t offset = (head * prefix + t) * dim;
        if (compact) {
          attention.Add(at(&rebuilt.k[offset]), at(&rebuilt.v[offset]));
        } else {
          attention.Add(at_bf16(cache.dense.k + offset), at_bf16(cache.dense.v + offset));
        }
      }
      for (int64_t t = 0; t < cache.num_generated; ++t) {
        const Bf16* block = cache.blocks[t / kGeneratedBlockTokens];
        const int64_t in_block = t % kGeneratedBlockTokens;
        const auto offset = [&](int side) {
          return ((int64_t{side} * shape.num_kv_heads + head) * kGeneratedBlockTokens + in_block) *
                 dim;
        };
        attention.Add(at_bf16(block + offset(0)), at_bf16(block + offset(1)));
      }
      attention.Finish(out + row);
    }
  }
}

}  // namespace anchorage::kernels::reference
