#include <algorithm>
#include <cstddef>
#include <cstring>

#include "bench/kernel_case.h"
#include "bench/made_up_data.h"
#include "common/aligned_buffer.h"
#include "kernels/decode_attention.h"
#include "kernels/prefill_attention.h"
#include "kernels/reference/decode_attention.h"
#include "kv/compressor.h"
#include "kv/layer_cache.h"
#include "kv/plan/plan.h"

namespace anchorage::bench {
namespace {

using kernels::Bf16;
using kernels::DecodeAttentionShape;
using kernels::SequenceCache;
using kernels::Stream;

// Uncompressed keys and values are bound by memory, compressed ones by arithmetic: two cores of a
// machine with fast memory gain bytes, not time.
constexpr double kMinSpeedup = 0.5;

constexpr DecodeAttentionShape kSmolLm2 = {9, 3, 64};
constexpr DecodeAttentionShape kLlama8b = {32, 8, 128};
constexpr int kWindow = 32;

std::string HeadsName(const DecodeAttentionShape& heads) {
  return std::to_string(heads.num_q_heads) + "/" + std::to_string(heads.num_kv_heads) + "x" +
         std::to_string(heads.head_dim);
}

kv::PlanOptions PlanOf(kv::Layout layout) {
  kv::PlanOptions options;  // 20x
  options.layout = layout;
  return options;
}

// A layer that has just ended, with what the last kWindow queries of its prompt saw.
class EndedLayer {
 public:
  EndedLayer(const DecodeAttentionShape& heads, int64_t seq_len, Stream& stream)
      : heads_(heads),
        seq_len_(seq_len),
        rope_(heads.head_dim, seq_len + 1),
        k_(RandomBf16(heads.num_kv_heads * seq_len * heads.head_dim, 20)),
        v_(RandomBf16(heads.num_kv_heads * seq_len * heads.head_dim, 21)),
        q_(RandomFloats(kWindow * heads.num_q_heads * heads.head_dim, 22)),
        lse_(kWindow * heads.num_q_heads),
        out_(q_.size()) {
    const kernels::PrefillAttentionShape window = {
        heads.num_q_heads, heads.num_kv_heads, heads.head_dim, seq_len - kWindow, kWindow, seq_len};
    std::vector<std::byte> scratch(
        kernels::PrefillAttentionScratchBytes(window, stream.num_threads()));
    kernels::PrefillAttention(window, q_.data(), k_.data(), v_.data(), rope_.view(), out_.data(),
                              lse_.data(), scratch.data(), stream);
  }

  kernels::RopeView rope() const { return rope_.view(); }

  kv::LayerPlan Plan(kv::Layout layout) const {
    return kv::PlanLayer({1, heads_.num_kv_heads, heads_.head_dim}, PlanOf(layout), seq_len_, 0);
  }

  kv::CompressedLayer Compress(kv::Layout layout, kv::Workspace& workspace, Stream& stream) const {
    const kv::LayerKv ended = {
        0,
        {heads_.num_kv_heads, heads_.head_dim, seq_len_, seq_len_, k_.data(), v_.data()},
        rope_.view()};
    const kernels::ObservedRowsView observed = {kWindow,   heads_.num_q_heads, heads_.head_dim,
                                                q_.data(), lse_.data(),        out_.data()};
    return kv::MakeCompressor(PlanOf(layout))
        ->Compress(ended, observed, Plan(layout), kernels::CodePacking::kPlanar, workspace, stream)
        .value();
  }

 private:
  DecodeAttentionShape heads_;
  int64_t seq_len_;
  Rope rope_;
  std::vector<Bf16> k_;
  std::vector<Bf16> v_;
  std::vector<float> q_;
  std::vector<float> lse_;
  std::vector<float> out_;
};

// The right answer: the same bytes as on one thread, and every index in order.
class CompressCase : public Case {
 public:
  CompressCase(const DecodeAttentionShape& heads, int64_t seq_len, Stream& stream)
      : seq_len_(seq_len), layer_(heads, seq_len, stream) {}

  void Run(Stream& stream) override {
    compressed_ = layer_.Compress(kv::Layout::kCompact, workspace_, stream);
  }

  double Error() const override {
    Stream one(1);
    kv::Workspace workspace;
    const kv::CompressedLayer expected = layer_.Compress(kv::Layout::kCompact, workspace, one);
    const bool same =
        compressed_.region.size() == expected.region.size() &&
        std::memcmp(compressed_.region.data(), expected.region.data(), expected.region.size()) == 0;
    return same && kv::VerifyLayer(compressed_.plan, compressed_.region.span()).ok() ? 0 : 1;
  }

  double bytes() const override {
    return static_cast<double>(layer_.Plan(kv::Layout::kCompact).full_bytes);
  }
  int64_t tokens() const override { return seq_len_; }

 private:
  int64_t seq_len_;
  EndedLayer layer_;
  kv::Workspace workspace_;
  kv::CompressedLayer compressed_;
};

// One query of one sequence over its prompt's cache.
class DecodeCase : public Case {
 public:
  DecodeCase(const DecodeAttentionShape& heads, int64_t seq_len, kv::Layout layout, Stream& stream)
      : heads_(heads),
        layer_(heads, seq_len, stream),
        compressed_(CompressOnce(layout, stream)),
        cache_(kv::MapLayer(compressed_.plan, compressed_.region.span()).value()),
        q_(RandomFloats(heads.num_q_heads * heads.head_dim, 23)),
        out_(q_.size()),
        scratch_(kernels::DecodeAttentionScratchBytes(
            heads, static_cast<int>(compressed_.plan.num_anchors), stream.num_threads())) {}

  void Run(Stream& stream) override {
    kernels::DecodeAttention(heads_, 1, &cache_, q_.data(), layer_.rope(), out_.data(),
                             scratch_.data(), stream);
  }

  double Error() const override {
    std::vector<double> expected(q_.size());
    kernels::reference::DecodeAttention(heads_, 1, &cache_, q_.data(), layer_.rope(),
                                        expected.data());
    return RelativeError(out_.data(), expected);
  }

  double bytes() const override { return static_cast<double>(compressed_.plan.region_bytes); }

 private:
  kv::CompressedLayer CompressOnce(kv::Layout layout, Stream& stream) const {
    kv::Workspace workspace;
    return layer_.Compress(layout, workspace, stream);
  }

  DecodeAttentionShape heads_;
  EndedLayer layer_;
  kv::CompressedLayer compressed_;
  SequenceCache cache_;
  std::vector<float> q_;
  std::vector<float> out_;
  std::vector<std::byte> scratch_;
};

NamedCase Compress(const DecodeAttentionShape& heads, int64_t seq_len) {
  return {"compress " + HeadsName(heads) + " S=" + std::to_string(seq_len),
          [=](Stream& stream) { return std::make_unique<CompressCase>(heads, seq_len, stream); }};
}

NamedCase Decode(const DecodeAttentionShape& heads, int64_t seq_len, double min_speedup) {
  const auto make = [=](kv::Layout layout) {
    return [=](Stream& stream) {
      return std::make_unique<DecodeCase>(heads, seq_len, layout, stream);
    };
  };
  return {
      "decode 20x " + HeadsName(heads) + " S=" + std::to_string(seq_len),
      make(kv::Layout::kCompact),
      0,
      "uncompressed",
      make(kv::Layout::kDense),
      min_speedup,
  };
}

}  // namespace

std::vector<NamedCase> CacheCases() {
  return {
      Compress(kSmolLm2, 4096),
      Compress(kSmolLm2, 8192),
      Compress(kLlama8b, 8192),
      Decode(kSmolLm2, 4096, kMinSpeedup),
      Decode(kSmolLm2, 8192, kMinSpeedup),
      Decode(kLlama8b, 8192, kMinSpeedup),
  };
}

}  // namespace anchorage::bench
