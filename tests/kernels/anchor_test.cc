#include "kernels/anchor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/compact_cache.h"
#include "kernels/reference/anchor.h"
#include "tests/kernels/kernel_testing.h"

namespace anchorage::kernels {
namespace {

class AnchorTest : public IsaTest {};

struct Shape {
  int num_q_heads;
  int num_kv_heads;
  int head_dim;
  int64_t seq_len;
  int window_len;
  int num_rows;
  float key_bias = 0.0f;

  int64_t prefix() const { return seq_len - window_len; }
  std::string Name() const {
    return "Gqa" + std::to_string(num_q_heads / num_kv_heads) + "_Hd" + std::to_string(head_dim) +
           "_Win" + std::to_string(window_len) + "_Rows" + std::to_string(num_rows) + "_Len" +
           std::to_string(seq_len) + "_Bias" + std::to_string(static_cast<int>(key_bias));
  }
};

const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes = {
      {9, 3, 64, 129, 32, 32},         {4, 4, 64, 500, 32, 32}, {8, 2, 128, 1000, 32, 7},
      {7, 1, 80, 300, 64, 64},         {3, 1, 96, 4097, 32, 2}, {2, 1, 256, 200, 8, 3},
      {3, 1, 64, 500, 32, 32, 300.0f}, {1, 1, 8, 33, 32, 1},    {2, 2, 72, 160, 16, 16},
  };
  return shapes;
}

// A layer, its observation rows and a plausible choice of anchors.
struct Layer {
  Shape shape;
  int num_anchors = 0;
  TestRope rope;
  std::vector<Bf16> k;
  std::vector<Bf16> v;
  std::vector<float> q;
  std::vector<float> lse;
  std::vector<float> out;
  std::vector<Bf16> anchors[2];
  std::vector<uint16_t> idx[2];
  std::vector<float> gamma[2];

  explicit Layer(const Shape& s)
      : shape(s),
        rope(s.head_dim, s.seq_len),
        k(RandomBf16(s.num_kv_heads * Capacity() * s.head_dim, 1)),
        v(RandomBf16(s.num_kv_heads * Capacity() * s.head_dim, 2)),
        q(RandomFloats(int64_t{s.num_rows} * s.num_q_heads * s.head_dim, 3)) {
    // A huge bias in the slowest pair, where a model puts it, so that no key is rotated far.
    for (size_t i = s.head_dim / 2 - 1; i < k.size(); i += s.head_dim) {
      k[i] = ToBf16(ToFloat(k[i]) + s.key_bias);
    }
    std::vector<double> exact_lse(int64_t{s.num_rows} * s.num_q_heads);
    std::vector<double> exact_out(q.size());
    lse.resize(exact_lse.size());
    out.resize(exact_out.size());
    reference::ObserveRows(kv(), observed(), rope.view(), exact_lse.data(), exact_out.data());
    std::copy(exact_lse.begin(), exact_lse.end(), lse.begin());
    std::copy(exact_out.begin(), exact_out.end(), out.begin());
    ChooseAnchors();
  }

  int64_t Capacity() const { return shape.seq_len + 3; }
  ActiveKvView kv() const {
    return {shape.num_kv_heads, shape.head_dim, shape.seq_len, Capacity(), k.data(), v.data()};
  }
  ObservedRowsView observed() const {
    return {shape.num_rows, shape.num_q_heads, shape.head_dim, q.data(), lse.data(), out.data()};
  }
  AnchorSide side(int i) const { return {anchors[i].data(), idx[i].data(), gamma[i].data()}; }

 private:
  // Every seventh position is an anchor of itself, others point at random.
  void ChooseAnchors() {
    const int64_t prefix = shape.prefix();
    const int dim = shape.head_dim;
    num_anchors = static_cast<int>((prefix + 6) / 7);
    for (int i = 0; i < 2; ++i) {
      const std::vector<Bf16>& x = i == 0 ? k : v;
      std::mt19937 engine(17 + i);
      for (int head = 0; head < shape.num_kv_heads; ++head) {
        const Bf16* rows = &x[head * Capacity() * dim];
        for (int a = 0; a < num_anchors; ++a) {
          anchors[i].insert(anchors[i].end(), rows + 7 * a * dim, rows + (7 * a + 1) * dim);
        }
        for (int64_t t = 0; t < prefix; ++t) {
          const bool exact = t % 7 == 0;
          idx[i].push_back(static_cast<uint16_t>(exact ? t / 7 : engine() % num_anchors));
          gamma[i].push_back(exact ? 1.0f : static_cast<float>(engine() % 1000) / 500.0f - 1.0f);
        }
      }
    }
  }
};

// How far a score may be off: its terms' sizes (|q_i| below 5, random keys below 5 or the bias)
// in units of u, as a random walk over D; the log-sum-exp is rounded once more.
double ScoreError(const Shape& shape) {
  const double size = 5 * std::sqrt(shape.head_dim) + 20 + 5 * 3 * shape.key_bias;
  return 2 * size * kUnit;
}

std::vector<float> Score(const Layer& layer, int kappa, Stream& stream) {
  std::vector<float> scores(layer.shape.num_kv_heads * layer.shape.prefix(), NAN);
  EXPECT_EQ(ScorePrefix(layer.kv(), layer.observed(), layer.rope.view(), layer.shape.window_len,
                        kappa, scores.data(), stream),
            Status::kOk);
  return scores;
}

TEST_P(AnchorTest, ScorePrefixAgreesWithReference) {
  Stream stream(2);
  for (const Shape& shape : Shapes()) {
    if (kSanitized && shape.seq_len > 200) continue;
    SCOPED_TRACE(shape.Name());
    const Layer layer(shape);
    for (int kappa : {1, 7}) {
      const std::vector<float> scores = Score(layer, kappa, stream);
      std::vector<double> expected(scores.size());
      reference::ScorePrefix(layer.kv(), layer.observed(), layer.rope.view(), shape.window_len,
                             kappa, expected.data());
      // Weights are exp of scores; sums of positive terms keep the relative error.
      const double relative = ScoreError(shape) + (16 + kappa) * kUnit;
      for (size_t i = 0; i < scores.size(); ++i) {
        ASSERT_NEAR(scores[i], expected[i], relative * expected[i] + 1e-37) << i;
      }
    }
  }
}

// Eq. 14 by hand: W = 1, one row, q = 0, so each of the 4 keys weighs 1/4; pooling of width 3 over
// the 3 prefix positions with zero padding gives 2, 3 and 2 quarters over 3.
TEST_P(AnchorTest, ScorePrefixPoolsByHand) {
  Stream stream(1);
  const TestRope rope(8, 4);
  const std::vector<Bf16> kv_rows = RandomBf16(4 * 8, 1);
  const std::vector<float> q(8, 0.0f);
  const float lse = std::log(4.0f);
  const ActiveKvView kv = {1, 8, 4, 4, kv_rows.data(), kv_rows.data()};
  const ObservedRowsView observed = {1, 1, 8, q.data(), &lse, q.data()};
  float scores[3];
  ASSERT_EQ(ScorePrefix(kv, observed, rope.view(), 1, 3, scores, stream), Status::kOk);
  EXPECT_NEAR(scores[0], 2.0 / 12, 4 * kUnit);
  EXPECT_NEAR(scores[1], 3.0 / 12, 4 * kUnit);
  EXPECT_NEAR(scores[2], 2.0 / 12, 4 * kUnit);
}

TEST_P(AnchorTest, ResidualUtilitiesAgreeWithReference) {
  Stream stream(2);
  for (const Shape& shape : Shapes()) {
    if (kSanitized && shape.seq_len > 200) continue;
    SCOPED_TRACE(shape.Name());
    const Layer layer(shape);
    std::vector<float> u_key(shape.num_kv_heads * shape.prefix(), NAN);
    std::vector<float> u_value(u_key.size(), NAN);
    std::vector<float> energies[2] = {u_key, u_value};
    ASSERT_EQ(ResidualUtilities(layer.kv(), layer.observed(), layer.rope.view(), shape.window_len,
                                layer.num_anchors, layer.side(0), layer.side(1),
                                {u_key.data(), energies[0].data()},
                                {u_value.data(), energies[1].data()}, stream),
              Status::kOk);
    std::vector<double> key(u_key.size());
    std::vector<double> value(u_key.size());
    reference::ResidualUtilities(layer.kv(), layer.observed(), layer.rope.view(), shape.window_len,
                                 layer.num_anchors, layer.side(0), layer.side(1), key.data(),
                                 value.data());
    // alpha squared doubles the error of a score. The squared product q . r is good to its size
    // |q||r|, not to its value, which can be near 0: that part is relative to the layer's mean.
    const double relative = 2 * ScoreError(shape) + 64 * kUnit;
    const double mean_key = std::accumulate(key.begin(), key.end(), 0.0) / key.size();
    for (size_t i = 0; i < key.size(); ++i) {
      ASSERT_NEAR(u_key[i], key[i], relative * (4 * key[i] + mean_key)) << i;
      ASSERT_NEAR(u_value[i], value[i], relative * value[i] + 1e-37) << i;
      if (static_cast<int64_t>(i) % shape.prefix() % 7 == 0) {
        ASSERT_EQ(u_key[i], 0.0f) << "an anchor needs no residual";
        ASSERT_EQ(u_value[i], 0.0f);
      }
      for (int side = 0; side < 2; ++side) {
        const double exact = reference::ResidualEnergy(
            layer.kv(), layer.side(side), (side == 0 ? layer.k : layer.v).data(),
            static_cast<int>(static_cast<int64_t>(i) / shape.prefix()), shape.window_len,
            layer.num_anchors, static_cast<int64_t>(i) % shape.prefix());
        ASSERT_NEAR(energies[side][i], exact,
                    16 * kUnit * (exact + shape.key_bias * shape.key_bias))
            << i;
      }
    }
  }
}

// Eq. 6 by hand: D = 8, no rotation at position 0. Row q = (2, 0, ..), alpha = 1/2, r_k = (3, 0,
// ..) and r_v = (0, 1, ..), V - y = (0, 0, 4, 0, ..): u_K = 1/4 * 36 / 8 * 16, u_V = 1/4 * 1.
TEST_P(AnchorTest, ResidualUtilitiesByHand) {
  Stream stream(1);
  const TestRope rope(8, 2);
  std::vector<Bf16> k(16);
  std::vector<Bf16> v(16);
  k[0] = ToBf16(3.0f);
  v[1] = ToBf16(1.0f);
  std::vector<Bf16> anchor(8);
  anchor[5] = ToBf16(1.0f);
  const uint16_t idx = 0;
  const float gamma = 0.0f;
  std::vector<float> q(8, 0.0f);
  q[0] = 2.0f;
  std::vector<float> y(8, 0.0f);
  y[1] = 1.0f;
  y[2] = -4.0f;
  const float lse = 6.0f / std::sqrt(8.0f) + std::log(2.0f);
  const ActiveKvView kv = {1, 8, 2, 2, k.data(), v.data()};
  const ObservedRowsView observed = {1, 1, 8, q.data(), &lse, y.data()};
  const AnchorSide side = {anchor.data(), &idx, &gamma};
  float u_key, energy_key;
  float u_value, energy_value;
  ASSERT_EQ(ResidualUtilities(kv, observed, rope.view(), 1, 1, side, side, {&u_key, &energy_key},
                              {&u_value, &energy_value}, stream),
            Status::kOk);
  EXPECT_NEAR(u_key, 18.0, 18 * 16 * kUnit);
  EXPECT_NEAR(u_value, 0.25, 0.25 * 16 * kUnit);
  EXPECT_EQ(energy_key, 9.0f);
  EXPECT_EQ(energy_value, 1.0f);
}

struct Assignment {
  std::vector<uint16_t> idx;
  std::vector<float> proj;
};

Assignment Assign(int head_dim, const std::vector<Bf16>& x, const std::vector<Bf16>& anchors,
                  Stream& stream) {
  const int64_t count = static_cast<int64_t>(x.size()) / head_dim;
  Assignment result{std::vector<uint16_t>(count, 999), std::vector<float>(count, NAN)};
  EXPECT_EQ(AssignAnchors(count, head_dim, static_cast<int>(anchors.size()) / head_dim, x.data(),
                          anchors.data(), result.idx.data(), result.proj.data(), stream),
            Status::kOk);
  return result;
}

TEST_P(AnchorTest, AssignAnchorsAgreesWithReference) {
  Stream stream(2);
  for (int dim : {8, 64, 80, 96, 128, 256}) {
    for (int num_anchors : {1, 5, 6, 7, 64, 300, 512}) {
      const int64_t count = kSanitized ? 20 : 150;
      const std::vector<Bf16> x = RandomBf16(count * dim, 4);
      const std::vector<Bf16> anchors = RandomBf16(int64_t{num_anchors} * dim, 5);
      const Assignment result = Assign(dim, x, anchors, stream);
      // A projection is a sum of D terms of x and a unit vector: |x| below 2 sqrt(D).
      const double error = 2 * std::sqrt(dim) * 16 * kUnit;
      for (int64_t i = 0; i < count; ++i) {
        const Bf16* row = &x[i * dim];
        const auto projection = [&](int a) {
          return reference::Projection(dim, row, &anchors[int64_t{a} * dim]);
        };
        ASSERT_LT(result.idx[i], num_anchors);
        ASSERT_NEAR(result.proj[i], projection(result.idx[i]), error);
        const int best = reference::NearestAnchor(dim, num_anchors, row, anchors.data());
        if (result.idx[i] == best) continue;
        // Another one may win only by rounding.
        ASSERT_NEAR(std::fabs(projection(result.idx[i])), std::fabs(projection(best)), error);
      }
    }
  }
}

// Eqs. 1, 2 by hand: x = (-3, 1) is nearer in angle to (2, 0) than to (1, 1), sign kept;
// <x, a>/|a| = -3, so gamma = -3/2.
TEST_P(AnchorTest, AssignAnchorsByHand) {
  Stream stream(1);
  std::vector<Bf16> x(8);
  std::vector<Bf16> anchors(16);
  x[0] = ToBf16(-3.0f);
  x[1] = ToBf16(1.0f);
  anchors[0] = anchors[1] = ToBf16(1.0f);
  anchors[8] = ToBf16(2.0f);
  const Assignment result = Assign(8, x, anchors, stream);
  EXPECT_EQ(result.idx[0], 1);
  EXPECT_EQ(result.proj[0], -3.0f);
  EXPECT_EQ(CompactGamma(-3.0f, InverseNorm(&anchors[8], 8)), -1.5f);
}

TEST_P(AnchorTest, AssignAnchorsGivesTiesToTheLowestIndex) {
  Stream stream(2);
  const int dim = 64;
  // Anchors 3, 5, 8 and 300 lie on the same line; powers of two keep the products' bits.
  std::vector<Bf16> anchors = RandomBf16(301 * dim, 6);
  for (int d = 0; d < dim; ++d) {
    const float x = ToFloat(anchors[3 * dim + d]);
    anchors[5 * dim + d] = ToBf16(-2 * x);
    anchors[8 * dim + d] = ToBf16(x);
    anchors[300 * dim + d] = ToBf16(4 * x);
  }
  std::vector<Bf16> x(anchors.begin() + 8 * dim, anchors.begin() + 9 * dim);
  EXPECT_EQ(Assign(dim, x, anchors, stream).idx[0], 3);

  // All keys equal: every row and every anchor is the same vector.
  const std::vector<Bf16> same(200 * dim, ToBf16(0.7f));
  for (uint16_t idx : Assign(dim, same, same, stream).idx) ASSERT_EQ(idx, 0);
}

TEST_P(AnchorTest, AssignAnchorsGivesZeroVectorsIndexAndProjectionZero) {
  Stream stream(1);
  const int dim = 64;
  std::vector<Bf16> x = RandomBf16(3 * dim, 7);
  std::fill(x.begin() + dim, x.begin() + 2 * dim, Bf16{});
  const std::vector<Bf16> anchors = RandomBf16(10 * dim, 8);
  const Assignment zero_row = Assign(dim, x, anchors, stream);
  EXPECT_EQ(zero_row.idx[1], 0);
  EXPECT_EQ(zero_row.proj[1], 0.0f);
  EXPECT_NE(zero_row.proj[0], 0.0f);

  const Assignment zero_anchors = Assign(dim, x, std::vector<Bf16>(10 * dim), stream);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(zero_anchors.idx[i], 0);
    EXPECT_EQ(zero_anchors.proj[i], 0.0f);
  }
  // A zero anchor loses to any other.
  std::vector<Bf16> first_zero = anchors;
  std::fill(first_zero.begin(), first_zero.begin() + dim, Bf16{});
  EXPECT_NE(Assign(dim, x, first_zero, stream).idx[0], 0);
}

TEST_P(AnchorTest, BitsDoNotDependOnThreadsOrCount) {
  const Layer layer({9, 3, 64, kSanitized ? 300 : 700, 32, 32});
  const int dim = 64;
  const int64_t rows = layer.shape.num_kv_heads * layer.shape.prefix();
  struct Result {
    std::vector<float> scores, u_key, u_value, energy_key, energy_value, proj;
    std::vector<uint16_t> idx;
  };
  const auto run = [&](int threads) {
    Stream stream(threads);
    Result result;
    result.scores = Score(layer, 7, stream);
    result.u_key.resize(rows);
    result.u_value.resize(rows);
    result.energy_key.resize(rows);
    result.energy_value.resize(rows);
    EXPECT_EQ(ResidualUtilities(layer.kv(), layer.observed(), layer.rope.view(), 32,
                                layer.num_anchors, layer.side(0), layer.side(1),
                                {result.u_key.data(), result.energy_key.data()},
                                {result.u_value.data(), result.energy_value.data()}, stream),
              Status::kOk);
    const Assignment assignment = Assign(dim, layer.k, layer.anchors[0], stream);
    result.idx = assignment.idx;
    result.proj = assignment.proj;
    return result;
  };
  const Result one = run(1);
  for (int threads : {2, 3}) {
    const Result more = run(threads);
    EXPECT_TRUE(SameBits(one.scores.data(), more.scores.data(), rows));
    EXPECT_TRUE(SameBits(one.u_key.data(), more.u_key.data(), rows));
    EXPECT_TRUE(SameBits(one.u_value.data(), more.u_value.data(), rows));
    EXPECT_TRUE(SameBits(one.energy_key.data(), more.energy_key.data(), rows));
    EXPECT_TRUE(SameBits(one.energy_value.data(), more.energy_value.data(), rows));
    EXPECT_TRUE(SameBits(one.proj.data(), more.proj.data(), one.proj.size()));
    EXPECT_EQ(one.idx, more.idx);
  }
  // A row alone, whatever its place in a block.
  Stream stream(1);
  for (int64_t row : {0, 15, 16, 127, 128, 700}) {
    const std::vector<Bf16> x(&layer.k[row * dim], &layer.k[row * dim] + dim);
    const Assignment alone = Assign(dim, x, layer.anchors[0], stream);
    EXPECT_EQ(alone.idx[0], one.idx[row]);
    EXPECT_TRUE(SameBits(alone.proj.data(), &one.proj[row], 1));
  }
}

TEST_P(AnchorTest, RefusesShapesThatDisagree) {
  Stream stream(1);
  const Layer layer({4, 2, 16, 50, 8, 8});
  std::vector<float> scores(200);
  const auto score = [&](const ActiveKvView& kv, const ObservedRowsView& observed,
                         const RopeView& rope, int window, int kappa) {
    return ScorePrefix(kv, observed, rope, window, kappa, scores.data(), stream);
  };
  ActiveKvView kv = layer.kv();
  ObservedRowsView observed = layer.observed();
  RopeView rope = layer.rope.view();
  EXPECT_EQ(score(kv, observed, rope, 8, 7), Status::kOk);
  EXPECT_EQ(score(kv, observed, rope, 50, 7), Status::kOk) << "an empty prefix";
  EXPECT_EQ(score(kv, observed, rope, 51, 7), Status::kInvalidShape);
  EXPECT_EQ(score(kv, observed, rope, 7, 7), Status::kInvalidShape) << "rows outside the window";
  EXPECT_EQ(score(kv, observed, rope, 8, 6), Status::kInvalidShape) << "even kappa";
  EXPECT_EQ(score(kv, observed, rope, 8, 0), Status::kInvalidShape);
  EXPECT_EQ(score(kv, observed, rope, 8, 257), Status::kInvalidShape);
  observed.num_q_heads = 3;
  EXPECT_EQ(score(kv, observed, rope, 8, 7), Status::kInvalidShape);
  observed = layer.observed();
  observed.lse = nullptr;
  EXPECT_EQ(score(kv, observed, rope, 8, 7), Status::kInvalidShape);
  rope.num_positions = 49;
  EXPECT_EQ(score(kv, layer.observed(), rope, 8, 7), Status::kInvalidShape);
  kv.capacity = 49;
  EXPECT_EQ(score(kv, layer.observed(), layer.rope.view(), 8, 7), Status::kInvalidShape);

  std::vector<Bf16> x(512);
  uint16_t idx;
  float proj;
  EXPECT_EQ(AssignAnchors(1, 12, 1, x.data(), x.data(), &idx, &proj, stream),
            Status::kInvalidShape);
  EXPECT_EQ(AssignAnchors(1, 8, 0, x.data(), x.data(), &idx, &proj, stream), Status::kInvalidShape);
  EXPECT_EQ(AssignAnchors(-1, 8, 1, x.data(), x.data(), &idx, &proj, stream),
            Status::kInvalidShape);
  EXPECT_EQ(AssignAnchors(1, 264, 1, x.data(), x.data(), &idx, &proj, stream),
            Status::kUnsupported);
  EXPECT_EQ(AssignAnchors(0, 8, 1, x.data(), x.data(), &idx, &proj, stream), Status::kOk);

  observed = layer.observed();
  observed.out = nullptr;
  EXPECT_EQ(ResidualUtilities(layer.kv(), observed, layer.rope.view(), 8, layer.num_anchors,
                              layer.side(0), layer.side(1), {scores.data(), scores.data()},
                              {scores.data(), scores.data()}, stream),
            Status::kInvalidShape);
}

INSTANTIATE_FOR_EVERY_ISA(AnchorTest);

}  // namespace
}  // namespace anchorage::kernels
