#include <cstddef>

#include "bench/kernel_case.h"
#include "bench/made_up_data.h"
#include "kernels/elementwise.h"
#include "kernels/prefill_attention.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/prefill_attention.h"

namespace anchorage::bench {
namespace {

using kernels::Bf16;
using kernels::Stream;

constexpr double kMinAttentionShare = 0.3;

// The last `q_len` queries of a prompt of `seq_len` tokens, heads as in SmolLM2-135M.
class PrefillAttentionCase : public Case {
 public:
  PrefillAttentionCase(int64_t seq_len, int64_t q_len, Stream& stream)
      : shape_{kQHeads, kKvHeads, kHeadDim, seq_len - q_len, q_len, seq_len},
        q_(RandomFloats(q_len * kQHeads * kHeadDim, 5)),
        k_(RandomBf16(kKvHeads * seq_len * kHeadDim, 6)),
        v_(RandomBf16(kKvHeads * seq_len * kHeadDim, 7)),
        out_(q_.size()),
        scratch_(kernels::PrefillAttentionScratchBytes(shape_, stream.num_threads())),
        rope_(kHeadDim, seq_len) {}

  void Run(Stream& stream) override {
    kernels::PrefillAttention(shape_, q_.data(), k_.data(), v_.data(), rope_.view(), out_.data(),
                              nullptr, scratch_.data(), stream);
  }

  double Error() const override {
    const int64_t last = shape_.q_len - 1;
    const int64_t row_floats = kQHeads * kHeadDim;
    kernels::PrefillAttentionShape last_row = shape_;
    last_row.q_start += last;
    last_row.q_len = 1;
    std::vector<double> expected(row_floats);
    kernels::reference::PrefillAttention(last_row, q_.data() + last * row_floats, k_.data(),
                                         v_.data(), rope_.view(), expected.data(), nullptr);
    return RelativeError(out_.data() + last * row_floats, expected);
  }

  double flops() const override {
    const auto seq_len = static_cast<double>(shape_.kv_capacity);
    const auto q_len = static_cast<double>(shape_.q_len);
    return q_len * (seq_len - (q_len - 1) / 2) * kQHeads * kHeadDim * 4;
  }
  double bytes() const override {
    return static_cast<double>((k_.size() + v_.size()) * sizeof(Bf16));
  }

 private:
  static constexpr int kQHeads = 9;
  static constexpr int kKvHeads = 3;
  static constexpr int kHeadDim = 64;

  kernels::PrefillAttentionShape shape_;
  std::vector<float> q_;
  std::vector<Bf16> k_;
  std::vector<Bf16> v_;
  std::vector<float> out_;
  std::vector<std::byte> scratch_;
  Rope rope_;
};

class SiluMulCase : public Case {
 public:
  explicit SiluMulCase(int64_t count)
      : gate_(RandomFloats(count, 8)), up_(RandomFloats(count, 9)), out_(count) {}

  void Run(Stream& stream) override {
    kernels::SiluMul(Count(), gate_.data(), up_.data(), out_.data(), stream);
  }

  double Error() const override {
    std::vector<double> expected(out_.size());
    kernels::reference::SiluMul(Count(), gate_.data(), up_.data(), expected.data());
    return RelativeError(out_.data(), expected);
  }

  double bytes() const override { return static_cast<double>(2 * out_.size() * sizeof(float)); }

 private:
  int64_t Count() const { return static_cast<int64_t>(out_.size()); }

  std::vector<float> gate_;
  std::vector<float> up_;
  std::vector<float> out_;
};

class RmsNormCase : public Case {
 public:
  RmsNormCase(int64_t rows, int64_t dim)
      : rows_(rows),
        x_(RandomFloats(rows * dim, 10)),
        weight_(RandomFloats(dim, 11)),
        out_(x_.size()) {}

  void Run(Stream& stream) override {
    kernels::RmsNorm(rows_, Dim(), x_.data(), weight_.data(), 1e-5f, out_.data(), stream);
  }

  double Error() const override {
    std::vector<double> expected(x_.size());
    kernels::reference::RmsNorm(rows_, Dim(), x_.data(), weight_.data(), 1e-5f, expected.data());
    return RelativeError(out_.data(), expected);
  }

  double bytes() const override { return static_cast<double>(x_.size() * sizeof(float)); }

 private:
  int64_t Dim() const { return static_cast<int64_t>(weight_.size()); }

  int64_t rows_;
  std::vector<float> x_;
  std::vector<float> weight_;
  std::vector<float> out_;
};

NamedCase PrefillAttention(int64_t seq_len, int64_t q_len, double min_share = 0) {
  return {
      "prefill_attention q=" + std::to_string(q_len) + " S=" + std::to_string(seq_len),
      [=](Stream& stream) {
        return std::make_unique<PrefillAttentionCase>(seq_len, q_len, stream);
      },
      min_share,
  };
}

}  // namespace

std::vector<NamedCase> PrefillCases() {
  return {
      PrefillAttention(512, 512),
      PrefillAttention(4096, 512, kMinAttentionShare),
      PrefillAttention(8192, 512, kMinAttentionShare),
      {"silu_mul 512 x 1536", [](Stream&) { return std::make_unique<SiluMulCase>(512 * 1536); }},
      {"rms_norm 512 x 576", [](Stream&) { return std::make_unique<RmsNormCase>(512, 576); }},
  };
}

}  // namespace anchorage::bench
