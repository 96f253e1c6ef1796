#include "kernels/prefill_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/prefill_attention.h"
#include "tests/kernels/kernel_testing.h"

namespace anchorage::kernels {
namespace {

class PrefillAttentionTest : public IsaTest {};

// The arrays of one layer: queries of positions [0, seq_len).
struct Layer {
  PrefillAttentionShape shape;  // of the whole prompt in one call
  std::vector<float> q;
  std::vector<Bf16> k;
  std::vector<Bf16> v;
  TestRope rope;

  Layer(int num_q_heads, int num_kv_heads, int head_dim, int64_t seq_len, int64_t capacity)
      : shape{num_q_heads, num_kv_heads, head_dim, 0, seq_len, capacity},
        q(RandomFloats(seq_len * num_q_heads * head_dim, 31)),
        k(RandomBf16(num_kv_heads * capacity * head_dim, 32)),
        v(RandomBf16(num_kv_heads * capacity * head_dim, 33)),
        rope(head_dim, capacity) {}

  int64_t row_floats() const { return int64_t{shape.num_q_heads} * shape.head_dim; }
};

struct Result {
  std::vector<float> out;
  std::vector<float> lse;
};

// Attention of query positions [start, start + len).
Result Attend(const Layer& layer, int64_t start, int64_t len, Stream& stream) {
  PrefillAttentionShape shape = layer.shape;
  shape.q_start = start;
  shape.q_len = len;
  Result result;
  result.out.assign(len * layer.row_floats(), NAN);
  result.lse.assign(len * shape.num_q_heads, NAN);
  // Scratch comes with whatever was in it; NaN shows a read of what was not written.
  std::vector<float> scratch(PrefillAttentionScratchBytes(shape, stream.num_threads()) / 4, NAN);
  EXPECT_EQ(
      PrefillAttention(shape, layer.q.data() + start * layer.row_floats(), layer.k.data(),
                       layer.v.data(), layer.rope.view(), result.out.data(), result.lse.data(),
                       reinterpret_cast<std::byte*>(scratch.data()), stream),
      Status::kOk);
  return result;
}

void ExpectAgreesWithReference(const Layer& layer, int64_t start, int64_t len, Stream& stream) {
  const Result result = Attend(layer, start, len, stream);
  PrefillAttentionShape shape = layer.shape;
  shape.q_start = start;
  shape.q_len = len;
  std::vector<double> out(result.out.size());
  std::vector<double> lse(result.lse.size());
  reference::PrefillAttention(shape, layer.q.data() + start * layer.row_floats(), layer.k.data(),
                              layer.v.data(), layer.rope.view(), out.data(), lse.data());
  // A score is a sum of D products of standard normals over sqrt(D): its rounding errors add up
  // like a random walk of D steps of size |partial sum| <= 5 (five sigma), in units of u, plus
  // three of rotation and scaling. exp turns them into relative errors of weights, which average
  // values of magnitude <= 5; the weights' own sums over keys add their roundings.
  const double score_error = (5.0 * std::sqrt(shape.head_dim) + 3 * 5) * kUnit;
  const double sum_error = (8 + 2 * std::sqrt(static_cast<double>(start + len))) * kUnit;
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(result.out[i], out[i], 5 * (2 * score_error + sum_error)) << i;
  }
  for (size_t i = 0; i < lse.size(); ++i) {
    ASSERT_NEAR(result.lse[i], lse[i], score_error + sum_error + 2 * kUnit * std::abs(lse[i])) << i;
  }
}

TEST_P(PrefillAttentionTest, IsTheHandComputedCase) {
  // Unrotated (cos 1, sin 0), D = 8, scale 1/sqrt(8). Row 0 sees key 0 alone. Row 1 has scores
  // 0 and ln 3: weights 1/4 and 3/4 on values 4 and 8.
  const std::vector<float> cos(2 * 4, 1.0f);
  const std::vector<float> sin(2 * 4, 0.0f);
  const RopeView rope = {cos.data(), sin.data(), 8, 2};
  std::vector<float> q(16, 0.0f);
  q[8] = std::log(3.0f) * std::sqrt(8.0f);
  std::vector<Bf16> k(16, ToBf16(0));
  k[8] = ToBf16(1);
  std::vector<Bf16> v(16, ToBf16(4));
  std::fill(v.begin() + 8, v.end(), ToBf16(8));
  const PrefillAttentionShape shape = {1, 1, 8, 0, 2, 2};
  Stream stream(1);
  std::vector<float> out(16);
  std::vector<float> lse(2);
  std::vector<std::byte> scratch(PrefillAttentionScratchBytes(shape, 1));
  ASSERT_EQ(PrefillAttention(shape, q.data(), k.data(), v.data(), rope, out.data(), lse.data(),
                             scratch.data(), stream),
            Status::kOk);
  for (int i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(out[i], 4);
    EXPECT_FLOAT_EQ(out[8 + i], 7);
  }
  EXPECT_NEAR(lse[0], 0, 1e-7);
  EXPECT_FLOAT_EQ(lse[1], std::log(4.0f));
}

struct HeadCounts {
  int num_q_heads;
  int num_kv_heads;
};

TEST_P(PrefillAttentionTest, AgreesWithTheReferenceForEveryGroupingAndHeadDim) {
  Stream stream(2);
  for (const HeadCounts heads : {HeadCounts{1, 1}, {3, 3}, {9, 3}, {5, 1}}) {
    for (const int head_dim : {8, 64, 72, 80, 96, 128, 256}) {
      const Layer layer(heads.num_q_heads, heads.num_kv_heads, head_dim, 75, 80);
      SCOPED_TRACE(testing::Message()
                   << heads.num_q_heads << "/" << heads.num_kv_heads << " D " << head_dim);
      ExpectAgreesWithReference(layer, 0, 75, stream);
    }
  }
}

TEST_P(PrefillAttentionTest, AgreesWithTheReferenceAroundTheTileEdges) {
  Stream stream(2);
  const Layer layer(6, 2, 16, 400, 401);
  for (const int64_t start : {0, 1, 63, 64, 65, 127, 200}) {
    for (const int64_t len : {1, 3, 7, 63, 64, 65, 130, 200}) {
      SCOPED_TRACE(testing::Message() << "start " << start << " len " << len);
      ExpectAgreesWithReference(layer, start, len, stream);
    }
  }
}

TEST_P(PrefillAttentionTest, SurvivesScoresThatGrowAlongTheContext) {
  // Scores in the hundreds, ever larger: each tile rescales all before it.
  Layer layer(2, 1, 16, 300, 300);
  for (float& value : layer.q) value = std::abs(value) * 8;
  for (size_t i = 0; i < layer.k.size(); ++i) {
    layer.k[i] = ToBf16(static_cast<float>(i) * 0.01f * (i % 16 == 15 ? 1.0f : 0.0f));
  }
  Stream stream(1);
  const Result result = Attend(layer, 0, 300, stream);
  std::vector<double> out(result.out.size());
  reference::PrefillAttention(layer.shape, layer.q.data(), layer.k.data(), layer.v.data(),
                              layer.rope.view(), out.data(), nullptr);
  for (size_t i = 0; i < out.size(); ++i) {
    // Scores up to 500 lose 500 u each; a weight errs by twice that, a value is at most 5.
    ASSERT_NEAR(result.out[i], out[i], 5 * 2 * 16 * 500 * kUnit) << i;
  }
}

TEST_P(PrefillAttentionTest, GivesARowTheSameBitsInAnyCall) {
  // Five q heads to a KV head: the chunks leave every number of rows over from whole sixes.
  constexpr int kHeads = 5;
  const int64_t seq_len = kSanitized ? 300 : 2000;
  const Layer layer(kHeads, 1, 24, seq_len, seq_len);
  const int64_t row_floats = layer.row_floats();
  Stream one(1);
  const Result expected = Attend(layer, 0, seq_len, one);
  for (const int threads : {1, 2, 3}) {
    Stream stream(threads);
    for (const int64_t chunk : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{5},
                                int64_t{64}, int64_t{100}, seq_len}) {
      // Chunks of a few rows take long: the last of them only.
      const int64_t first = chunk < 64 ? seq_len - 20 * chunk : 0;
      for (int64_t start = first; start < seq_len; start += chunk) {
        const int64_t len = std::min(chunk, seq_len - start);
        const Result result = Attend(layer, start, len, stream);
        ASSERT_TRUE(
            SameBits(result.out.data(), &expected.out[start * row_floats], len * row_floats))
            << threads << " threads, chunk " << chunk << ", start " << start;
        ASSERT_TRUE(SameBits(result.lse.data(), &expected.lse[start * kHeads], len * kHeads));
      }
    }
  }
}

TEST_P(PrefillAttentionTest, DoesNotLookAtTheFuture) {
  Layer layer(2, 2, 32, 130, 140);
  Stream stream(1);
  const Result before = Attend(layer, 0, 100, stream);
  for (int head = 0; head < 2; ++head) {
    for (int64_t i = 100 * 32; i < 140 * 32; ++i) {
      layer.k[head * 140 * 32 + i] = {0x7fc0};
      layer.v[head * 140 * 32 + i] = {0x7fc0};
    }
  }
  const Result after = Attend(layer, 0, 100, stream);
  EXPECT_TRUE(SameBits(before.out.data(), after.out.data(), 100 * 64));
}

TEST_P(PrefillAttentionTest, WorksWithoutLse) {
  const Layer layer(2, 1, 16, 70, 70);
  Stream stream(2);
  const Result expected = Attend(layer, 0, 70, stream);
  std::vector<float> out(expected.out.size());
  std::vector<std::byte> scratch(PrefillAttentionScratchBytes(layer.shape, 2));
  ASSERT_EQ(PrefillAttention(layer.shape, layer.q.data(), layer.k.data(), layer.v.data(),
                             layer.rope.view(), out.data(), nullptr, scratch.data(), stream),
            Status::kOk);
  EXPECT_TRUE(SameBits(out.data(), expected.out.data(), static_cast<int64_t>(out.size())));
}

TEST_P(PrefillAttentionTest, RejectsShapesThatDisagree) {
  const Layer layer(4, 2, 16, 10, 10);
  Stream stream(1);
  const auto attend = [&](PrefillAttentionShape shape) {
    return PrefillAttention(shape, nullptr, nullptr, nullptr, layer.rope.view(), nullptr, nullptr,
                            nullptr, stream);
  };
  PrefillAttentionShape shape = layer.shape;
  shape.num_kv_heads = 3;
  EXPECT_EQ(attend(shape), Status::kInvalidShape);
  shape = layer.shape;
  shape.num_kv_heads = 0;
  EXPECT_EQ(attend(shape), Status::kInvalidShape);
  shape = layer.shape;
  shape.head_dim = 12;
  EXPECT_EQ(attend(shape), Status::kInvalidShape);
  shape = layer.shape;
  shape.head_dim = 24;  // disagrees with the rope table
  EXPECT_EQ(attend(shape), Status::kInvalidShape);
  shape = layer.shape;
  shape.q_start = 1;  // one key more than the capacity
  EXPECT_EQ(attend(shape), Status::kInvalidShape);
  shape.kv_capacity = 11;  // one position more than the rope table
  EXPECT_EQ(attend(shape), Status::kInvalidShape);
  shape = layer.shape;
  shape.q_len = -1;
  EXPECT_EQ(attend(shape), Status::kInvalidShape);
  shape.q_len = 0;
  EXPECT_EQ(attend(shape), Status::kOk);
}

INSTANTIATE_FOR_EVERY_ISA(PrefillAttentionTest);

}  // namespace
}  // namespace anchorage::kernels
