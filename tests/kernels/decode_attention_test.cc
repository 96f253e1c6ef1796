#include "kernels/decode_attention.h"
#include "kernels/anchor_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/reference/decode_attention.h"
#include "kernels/residual.h"
#include "tests/kernels/kernel_testing.h"

namespace anchorage::kernels {
namespace {

class DecodeAttentionTest : public IsaTest {};

struct Shape {
  DecodeAttentionShape attention;
  int64_t seq_len = 0;
  int num_anchors = 0;
  int window_len = 32;
  int64_t num_generated = 0;
  float key_bias = 0.0f;
  int num_pins = 4;  // fewer where there are not so many anchors or positions

  std::string Name() const {
    return "Gqa" + std::to_string(attention.num_q_heads / attention.num_kv_heads) + "_Hd" +
           std::to_string(attention.head_dim) + "_Anchors" + std::to_string(num_anchors) + "_Len" +
           std::to_string(seq_len) + "_Gen" + std::to_string(num_generated) + "_Bias" +
           std::to_string(static_cast<int>(key_bias));
  }
};

const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes = {
      {{9, 3, 64}, 129, 40, 32, 1},
      {{9, 3, 64}, 500, 64, 32, 33},
      {{4, 4, 64}, 1000, 64, 32, 0},
      {{8, 2, 128}, 1000, 300, 32, 70, 0.0f, 100},
      {{7, 1, 80}, 500, 33, 32, 5},
      {{3, 1, 96}, 4097, 512, 32, 100},
      {{2, 1, 256}, 500, 257, 32, 31},
      {{9, 1, 64}, 2113, 64, 64, 32},
      {{3, 1, 64}, 500, 64, 32, 10, 300.0f},
      {{1, 1, 8}, 3, 2, 1, 0},
      {{2, 2, 72}, 300, 40, 16, 3},
      {{1, 1, 64}, 66, 2, 2, 2100},
      {{2, 1, 64}, 0, 0, 0, 77},  // dense only: nothing but generated tokens
  };
  return shapes;
}

std::vector<Bf16> BiasedKeys(int64_t count, int head_dim, float bias, uint32_t seed) {
  std::vector<Bf16> keys = RandomBf16(count, seed);
  for (int64_t i = head_dim / 2 - 1; i < count; i += head_dim) {
    keys[i] = ToBf16(ToFloat(keys[i]) + bias);
  }
  return keys;
}

// One stage of a random side's residuals.
struct TestStage {
  std::vector<uint64_t> mask;
  std::vector<uint32_t> prefix;
  std::vector<uint32_t> offset = {0};
  std::vector<uint8_t> codes;
  std::vector<Bf16> scale;

  ResidualStage view() const {
    return {mask.data(), prefix.data(), offset.data(), codes.data(), scale.data()};
  }

  void BeginWord() {
    mask.push_back(0);
    prefix.push_back(static_cast<uint32_t>(scale.size()) - offset.back());
  }
  void Add(int64_t t, int dim, std::mt19937& engine) {
    mask.back() |= uint64_t{1} << (t % 64);
    for (int i = 0; i < dim / 4; ++i) codes.push_back(static_cast<uint8_t>(engine()));
    scale.push_back(ToBf16(static_cast<float>(engine() % 100) / 100.0f));
  }
  void EndHead() { offset.push_back(static_cast<uint32_t>(scale.size())); }
};

// One side of a random compact cache. Anchors of index 1 are zero; every fourth position has a
// residual and every third of these a fine one, pinned ones none; projections reach gammas of about
// +-1.5.
struct TestSide {
  std::vector<int8_t> anchor;
  std::vector<int8_t> anchor_exponent;
  std::vector<uint8_t> idx;
  std::vector<uint8_t> proj;
  std::vector<float> proj_level;
  TestStage coarse;
  TestStage fine;

  CompactSide view() const {
    return {anchor.data(),     anchor_exponent.data(), idx.data(), proj.data(),
            proj_level.data(), coarse.view(),          fine.view()};
  }
};

class TestCompactCache {
 public:
  TestCompactCache(const Shape& shape, uint32_t seed) : engine_(seed) {
    view_.num_kv_heads = shape.attention.num_kv_heads;
    view_.head_dim = shape.attention.head_dim;
    view_.seq_len = shape.seq_len;
    view_.num_anchors = shape.num_anchors;
    view_.window_len = shape.window_len;
    view_.num_pins = std::min({shape.num_pins, shape.num_anchors - shape.window_len,
                               static_cast<int>(view_.prefix_len())});
    const int64_t anchors = int64_t{view_.num_kv_heads} * shape.num_anchors * view_.head_dim;
    Store(BiasedKeys(anchors, view_.head_dim, shape.key_bias, seed + 1), key_);
    Store(RandomBf16(anchors, seed + 2), value_);
    Fill(key_);
    Fill(value_);
    for (int head = 0; head < view_.num_kv_heads; ++head) ChooseKeyCode();
    view_.pair_order = pair_order_.data();
    view_.key_gain = key_gain_.data();
    view_.key = key_.view();
    view_.value = value_.view();
  }
  TestCompactCache(const TestCompactCache&) = delete;

  const CompactCacheView& view() const { return view_; }

 private:
  void ChooseKeyCode() {
    std::vector<uint8_t> order(view_.head_dim / 2);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), engine_);
    pair_order_.insert(pair_order_.end(), order.begin(), order.end());
    for (int part = 0; part < 2; ++part) {
      key_gain_.push_back(static_cast<float>(1 + engine_() % 100) / 100.0f);
    }
  }

  void Store(const std::vector<Bf16>& rows, TestSide& side) const {
    const int dim = view_.head_dim;
    side.anchor.resize(rows.size());
    for (size_t at = 0; at < rows.size(); at += dim) {
      side.anchor_exponent.push_back(EncodeAnchor(dim, &rows[at], &side.anchor[at]));
    }
  }

  void Fill(TestSide& side) {
    const int dim = view_.head_dim;
    if (view_.num_anchors > 1) {
      std::fill(side.anchor.begin() + dim, side.anchor.begin() + 2 * dim, int8_t{0});
    }
    for (int head = 0; head < view_.num_kv_heads; ++head) FillHead(side);
  }

  void FillHead(TestSide& side) {
    const int64_t prefix = view_.prefix_len();
    const int bits = IndexBits(view_.num_anchors);
    std::vector<uint8_t> idx(IndexRowBytes(prefix, view_.num_anchors));
    std::vector<uint8_t> proj(ProjectionRowBytes(prefix));
    for (int i = 0; i < kNumProjectionLevels; ++i) {
      side.proj_level.push_back(1.5f * std::sqrt(static_cast<float>(view_.head_dim)) *
                                (static_cast<float>(i) - 7.5f) / 7.5f);
    }
    for (int64_t t = 0; t < prefix; ++t) {
      const auto anchor = static_cast<uint32_t>(engine_() % view_.num_anchors);
      for (int bit = 0; bit < bits; ++bit) {
        const int64_t at = t * bits + bit;
        idx[at / 8] |= static_cast<uint8_t>((anchor >> bit & 1) << (at % 8));
      }
      proj[t / 2] |= static_cast<uint8_t>(engine_() % 16 << (t % 2 * 4));
      if (t % 64 == 0) {
        side.coarse.BeginWord();
        side.fine.BeginWord();
      }
      if (t < view_.num_pins || engine_() % 4 != 0) continue;
      side.coarse.Add(t, view_.head_dim, engine_);
      if (engine_() % 3 == 0) side.fine.Add(t, view_.head_dim, engine_);
    }
    side.idx.insert(side.idx.end(), idx.begin(), idx.end());
    side.proj.insert(side.proj.end(), proj.begin(), proj.end());
    side.coarse.EndHead();
    side.fine.EndHead();
  }

  std::mt19937 engine_;
  CompactCacheView view_;
  std::vector<uint8_t> pair_order_;
  std::vector<float> key_gain_;
  TestSide key_;
  TestSide value_;
};

// A sequence with its memory.
class TestSequence {
 public:
  TestSequence(const Shape& shape, SequenceCache::Prefix prefix, uint32_t seed) {
    const int64_t row = int64_t{shape.attention.num_kv_heads} * shape.attention.head_dim;
    cache_.prefix = prefix;
    if (prefix == SequenceCache::Prefix::kCompact) {
      compact_ = std::make_unique<TestCompactCache>(shape, seed);
      cache_.compact = compact_->view();
    } else {
      k_ = BiasedKeys(row * shape.seq_len, shape.attention.head_dim, shape.key_bias, seed + 1);
      v_ = RandomBf16(row * shape.seq_len, seed + 2);
      cache_.dense = {k_.data(), v_.data(), shape.seq_len};
    }
    cache_.num_generated = shape.num_generated;
    for (int64_t t = 0; t < shape.num_generated; t += kGeneratedBlockTokens) {
      blocks_.push_back(RandomBf16(2 * row * kGeneratedBlockTokens, seed + 3 + t));
      block_pointers_.push_back(blocks_.back().data());
    }
    cache_.blocks = block_pointers_.data();
  }

  const SequenceCache& cache() const { return cache_; }

 private:
  SequenceCache cache_;
  std::unique_ptr<TestCompactCache> compact_;
  std::vector<Bf16> k_;
  std::vector<Bf16> v_;
  std::vector<std::vector<Bf16>> blocks_;
  std::vector<const Bf16*> block_pointers_;
};

std::vector<float> Attend(const DecodeAttentionShape& shape,
                          const std::vector<SequenceCache>& sequences, const std::vector<float>& q,
                          const RopeView& rope, Stream& stream, int max_anchors = 512) {
  std::vector<float> out(q.size(), NAN);
  // Scratch comes with whatever was in it; NaN shows a read of what was not written.
  std::vector<float> scratch(
      DecodeAttentionScratchBytes(shape, max_anchors, stream.num_threads()) / 4, NAN);
  EXPECT_EQ(
      DecodeAttention(shape, static_cast<int64_t>(sequences.size()), sequences.data(), q.data(),
                      rope, out.data(), reinterpret_cast<std::byte*>(scratch.data()), stream),
      Status::kOk);
  return out;
}

void ExpectAgreesWithReference(const Shape& shape, SequenceCache::Prefix prefix, Stream& stream) {
  SCOPED_TRACE(shape.Name() + (prefix == SequenceCache::Prefix::kDense ? "_Dense" : "_Compact"));
  const DecodeAttentionShape& attention = shape.attention;
  const TestRope rope(attention.head_dim, shape.seq_len + 1);
  const TestSequence sequence(shape, prefix, 40);
  const auto q = RandomFloats(int64_t{attention.num_q_heads} * attention.head_dim, 41);
  const std::vector<float> out =
      Attend(attention, {sequence.cache()}, q, rope.view(), stream, shape.num_anchors);
  std::vector<double> expected(q.size());
  reference::DecodeAttention(attention, 1, &sequence.cache(), q.data(), rope.view(),
                             expected.data());
  // A score sums D terms of sizes below 5 x (5 x 1.5 or the bias) over sqrt(D), and a residual of
  // at most 2 x 1.5 a coordinate; its angle comes in two parts, each rounded. Softmax turns its
  // error into a relative one of weights, of values below 5 x 1.5 + 2 x 1.5 x 5. Sums over tokens
  // (up to 4,200 positive weights, in tiles of 64) keep the relative error of a few tens of
  // roundings.
  const double score_error =
      2 * (5 * 1.5 * std::sqrt(attention.head_dim) + 120 + 5 * 4 * shape.key_bias) * kUnit;
  const double tolerance = 23 * (2 * score_error + 128 * kUnit);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], tolerance) << i;
}

TEST_P(DecodeAttentionTest, DenseAgreesWithReference) {
  Stream stream(2);
  for (const Shape& shape : Shapes()) {
    ExpectAgreesWithReference(shape, SequenceCache::Prefix::kDense, stream);
  }
}

TEST_P(DecodeAttentionTest, CompactAgreesWithReference) {
  Stream stream(2);
  for (const Shape& shape : Shapes()) {
    if (shape.seq_len == 0) continue;
    ExpectAgreesWithReference(shape, SequenceCache::Prefix::kCompact, stream);
  }
}

// A cache of three positions with D = 8: position 0 is pinned, position 2 is the window, and
// position 1 is 0.5 x anchor 0 on both sides plus a residual of scale 2. All codes are 3, so the
// rotated residual is 2 x outer everywhere, and U^T takes it to sqrt(8) x 2 x outer at coordinate 0
// (the first row of H is all ones). A fine code of the same kind with scale 0.5 adds a quarter. A
// key with one code has a front of 2 coordinates, 2 and 6, and a middle of 4, 0 first: all codes 3
// are sqrt(2) x 2 x 0.5 x 1.675 outer at coordinate 2 and sqrt(4) x 2 x outer at coordinate 0.
struct HandCache {
  std::vector<int8_t> key_anchor = std::vector<int8_t>(16);
  std::vector<int8_t> value_anchor = std::vector<int8_t>(16);
  int8_t exponent[2] = {-2, -1};  // anchor 0 in quarters, the window in halves
  uint8_t idx = 0b01;             // one bit each; that of an anchor's own position is not read
  uint8_t proj = 0x30;            // code 3 for position 1; that of position 0 is not read
  float key_level[16] = {99, 99, 99, 6};
  float value_level[16] = {99, 99, 99, 1.5f};
  uint8_t order[4] = {2, 0, 3, 1};
  float gain[2] = {0.5f, 1.0f};
  uint64_t mask = 2;
  uint64_t no_mask = 0;
  uint32_t prefix = 0;
  uint32_t offset[2] = {0, 1};
  uint32_t no_offset[2] = {0, 0};
  uint8_t codes[2] = {0xff, 0xff};
  Bf16 scale = ToBf16(2.0f);
  Bf16 fine_scale = ToBf16(0.5f);

  ResidualStage Stage(bool residual, const Bf16& of) const {
    return {residual ? &mask : &no_mask, &prefix, residual ? offset : no_offset, codes, &of};
  }

  CompactCacheView View(bool key_residual, bool value_residual, bool fine = false) const {
    CompactCacheView view;
    view.num_kv_heads = 1;
    view.head_dim = 8;
    view.seq_len = 3;
    view.num_anchors = 2;
    view.window_len = 1;
    view.pair_order = order;
    view.key_gain = gain;
    view.num_pins = 1;
    view.key = {key_anchor.data(),          exponent, &idx, &proj, key_level,
                Stage(key_residual, scale), {}};
    view.value = {value_anchor.data(),          exponent, &idx, &proj, value_level,
                  Stage(value_residual, scale), {}};
    if (fine) {
      view.key.fine = Stage(key_residual, fine_scale);
      view.value.fine = Stage(value_residual, fine_scale);
    }
    return view;
  }
};

std::vector<float> AttendByHand(const CompactCacheView& view, const std::vector<float>& q) {
  SequenceCache cache;
  cache.prefix = SequenceCache::Prefix::kCompact;
  cache.compact = view;
  Stream stream(1);
  const std::vector<float> ones(3 * 4, 1.0f);
  const std::vector<float> zeros(3 * 4, 0.0f);
  return Attend({1, 1, 8}, {cache}, q, {ones.data(), zeros.data(), 8, 3}, stream);
}

// Eq. 3, values: with q = 0 the output is the mean of V_0 = a, V_1 = 0.5 a + residual and V_2 = w.
// |a| = 3 and proj = 1.5, so gamma = 0.5.
TEST_P(DecodeAttentionTest, ValuesByHand) {
  HandCache hand;
  hand.value_anchor[1] = 12;      // a = 3 e_1
  hand.value_anchor[8 + 2] = 10;  // w = 5 e_2
  const std::vector<float> q(8, 0.0f);
  const std::vector<float> plain = AttendByHand(hand.View(false, false), q);
  const std::vector<float> with = AttendByHand(hand.View(false, true), q);
  const std::vector<float> fine = AttendByHand(hand.View(false, true, true), q);
  const float residual = ResidualSign(0) * std::sqrt(8.0f) * 2 * kOuterLevel;
  const float expected[8] = {0, 4.5f / 3, 5.0f / 3};
  for (int d = 0; d < 8; ++d) {
    EXPECT_NEAR(plain[d], expected[d], 5 * 8 * kUnit) << d;
    EXPECT_NEAR(with[d], expected[d] + (d == 0 ? residual / 3 : 0), 9 * 16 * kUnit) << d;
    EXPECT_NEAR(fine[d], expected[d] + (d == 0 ? 1.25f * residual / 3 : 0), 9 * 16 * kUnit) << d;
  }
}

// Eq. 3, keys: q = sqrt(8) (0, ln 2 / 6, 0, ...) gives K_0 = 12 e_1 the score ln 4, K_1 (proj 6 of
// |a| = 12, gamma 0.5) the score ln 2 and K_2 = 0 the score 0: weights 4/7, 2/7 and 1/7.
TEST_P(DecodeAttentionTest, KeysByHand) {
  HandCache hand;
  hand.key_anchor[1] = 48;
  hand.value_anchor[3] = 12;      // V_0 = 3 e_3, V_1 = 1.5 e_3
  hand.value_anchor[8 + 2] = 14;  // V_2 = 7 e_2
  std::vector<float> q(8, 0.0f);
  q[1] = static_cast<float>(std::sqrt(8.0) * std::log(2.0) / 6);
  const std::vector<float> out = AttendByHand(hand.View(false, false), q);
  EXPECT_NEAR(out[3], (4 * 3 + 2 * 1.5) / 7, 3 * 16 * kUnit);
  EXPECT_NEAR(out[2], 1.0, 7 * 16 * kUnit);

  // With a coordinate of q chosen so that the residual adds ln 3 to the score of K_1, the weights
  // are 4, 6 and 1 elevenths: in the middle, in the front, and with two codes, which add
  // sqrt(8) x 2.5 x outer x sign to coordinate 0.
  const double ln3 = std::log(3.0) * std::sqrt(8.0) / kOuterLevel * ResidualSign(0);
  struct Case {
    int coordinate;
    double residual;  // over outer x sign
    bool fine;
  };
  for (const Case& with : {Case{0, 4, false}, Case{2, std::sqrt(2.0) * 1.675, false},
                           Case{0, std::sqrt(8.0) * 2.5, true}}) {
    std::vector<float> seen = q;
    seen[with.coordinate] = static_cast<float>(ln3 / with.residual);
    const std::vector<float> attended = AttendByHand(hand.View(true, false, with.fine), seen);
    EXPECT_NEAR(attended[3], (4 * 3 + 6 * 1.5) / 11, 3 * 32 * kUnit) << with.residual;
    EXPECT_NEAR(attended[2], 7.0 / 11, 7 * 32 * kUnit) << with.residual;
  }
}

// Nine bits an index: 0x1ff, 0, 0x155, 0, ... in two bytes each, and two projections a byte.
TEST(CompactCacheTest, PackedIndicesAndProjectionsByHand) {
  EXPECT_EQ(IndexBits(1), 1);
  EXPECT_EQ(IndexBits(2), 1);
  EXPECT_EQ(IndexBits(3), 2);
  EXPECT_EQ(IndexBits(48), 6);
  EXPECT_EQ(IndexBits(64), 6);
  EXPECT_EQ(IndexBits(65), 7);
  EXPECT_EQ(IndexBits(512), 9);
  EXPECT_EQ(IndexRowBytes(9, 48), 12);
  EXPECT_EQ(ProjectionRowBytes(9), 5);
  // Position 0 = 0x1ff: bits 0-8. Position 2 = 0x155: bits 18-26. Position 7: bits 63-71.
  const uint8_t nine[9] = {0xff, 0x01, 0x155 << 2 & 0xff, 0x155 >> 6, 0, 0, 0, 0x80, 0xaa};
  EXPECT_EQ(LoadIndex(nine, 9, 0), 0x1ff);
  EXPECT_EQ(LoadIndex(nine, 9, 1), 0);
  EXPECT_EQ(LoadIndex(nine, 9, 2), 0x155);
  EXPECT_EQ(LoadIndex(nine, 9, 7), 0x155);
  const uint8_t six[7] = {0, 0, 0, 0, 0, 0, 0x2a};
  EXPECT_EQ(LoadIndex(six, 6, 8), 0x2a) << "the second group begins on a byte";
  const uint8_t proj[2] = {0x21, 0x43};
  for (int t = 0; t < 4; ++t) EXPECT_EQ(LoadProjection(proj, t), t + 1);
}

// Where every position is pinned or in the window and RoPE does nothing, the anchors in order of
// position are the dense cache.
TEST_P(DecodeAttentionTest, ExactPositionsGiveWhatTheDenseCacheGives) {
  Stream stream(2);
  const Shape shape = {{6, 2, 64}, 200, 200, 32, 40, 0.0f, 168};
  const TestSequence compact(shape, SequenceCache::Prefix::kCompact, 50);
  SequenceCache dense = compact.cache();
  dense.prefix = SequenceCache::Prefix::kDense;
  const auto decode = [](const CompactSide& side) {
    std::vector<Bf16> rows(2 * 200 * 64);
    DecodeAnchors(2 * 200, 64, side.anchor, side.anchor_exponent, rows.data());
    return rows;
  };
  const std::vector<Bf16> k = decode(dense.compact.key);
  const std::vector<Bf16> v = decode(dense.compact.value);
  dense.dense = {k.data(), v.data(), 200};
  const std::vector<float> ones(200 * 32, 1.0f);
  const std::vector<float> zeros(200 * 32, 0.0f);
  const RopeView rope = {ones.data(), zeros.data(), 64, 200};
  const auto q = RandomFloats(6 * 64, 51);
  const auto out = Attend(shape.attention, {compact.cache()}, q, rope, stream);
  const auto expected = Attend(shape.attention, {dense}, q, rope, stream);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1000 * kUnit) << i;
}

// All keys equal: the weights are uniform, whatever the query.
TEST_P(DecodeAttentionTest, EqualKeysAverageTheValues) {
  Stream stream(1);
  const int64_t len = 500;
  const std::vector<Bf16> k(len * 64, ToBf16(0.5f));
  const std::vector<Bf16> v = RandomBf16(len * 64, 60);
  SequenceCache cache;
  cache.dense = {k.data(), v.data(), len};
  const auto q = RandomFloats(64, 61);
  const TestRope rope(64, 1);
  const auto out = Attend({1, 1, 64}, {cache}, q, rope.view(), stream);
  for (int d = 0; d < 64; ++d) {
    double mean = 0;
    for (int64_t t = 0; t < len; ++t) mean += double{ToFloat(v[t * 64 + d])} / len;
    ASSERT_NEAR(out[d], mean, 5 * 64 * kUnit) << d;
  }
}

TEST_P(DecodeAttentionTest, BitsDependOnOwnQueryAndCacheAlone) {
  const DecodeAttentionShape attention = {9, 3, 64};
  const int64_t row = 9 * 64;
  const int64_t longest = kSanitized ? 2200 : 5000;
  std::vector<std::unique_ptr<TestSequence>> owned;
  const auto add = [&](Shape shape, SequenceCache::Prefix prefix) {
    shape.attention = attention;
    owned.push_back(std::make_unique<TestSequence>(shape, prefix, 70 + 10 * owned.size()));
  };
  add({{}, longest, 64, 32, 100}, SequenceCache::Prefix::kCompact);
  add({{}, 129, 40, 32, 0}, SequenceCache::Prefix::kDense);
  add({{}, 700, 300, 32, 33}, SequenceCache::Prefix::kCompact);
  add({{}, 0, 0, 0, 5}, SequenceCache::Prefix::kDense);
  add({{}, longest, 0, 0, 2100}, SequenceCache::Prefix::kDense);
  std::vector<SequenceCache> caches;
  for (const auto& sequence : owned) caches.push_back(sequence->cache());

  const auto q = RandomFloats(static_cast<int64_t>(caches.size()) * row, 71);
  const TestRope rope(64, longest);
  Stream one(1);
  const auto together = Attend(attention, caches, q, rope.view(), one);
  for (int threads : {2, 3}) {
    Stream stream(threads);
    const auto more = Attend(attention, caches, q, rope.view(), stream);
    EXPECT_TRUE(SameBits(together.data(), more.data(), together.size())) << threads;
  }
  for (size_t i = 0; i < caches.size(); ++i) {
    const std::vector<float> own(&q[i * row], &q[i * row] + row);
    const auto alone = Attend(attention, {caches[i]}, own, rope.view(), one);
    EXPECT_TRUE(SameBits(&together[i * row], alone.data(), row)) << i;
  }
  // Last first: the order in the batch, and more tasks than one wave holds.
  std::vector<SequenceCache> many(caches.rbegin(), caches.rend());
  std::vector<float> many_q;
  for (size_t i = caches.size(); i-- > 0;) {
    many_q.insert(many_q.end(), &q[i * row], &q[i * row] + row);
  }
  Stream two(2);
  const auto reversed = Attend(attention, many, many_q, rope.view(), two);
  for (size_t i = 0; i < caches.size(); ++i) {
    const size_t at = caches.size() - 1 - i;
    EXPECT_TRUE(SameBits(&together[i * row], &reversed[at * row], row)) << i;
  }
}

TEST_P(DecodeAttentionTest, RefusesShapesThatDisagree) {
  Stream stream(1);
  const Shape shape = {{4, 2, 64}, 300, 40, 32, 3};
  const TestSequence compact(shape, SequenceCache::Prefix::kCompact, 80);
  const TestSequence dense(shape, SequenceCache::Prefix::kDense, 81);
  const TestRope rope(64, 300);
  std::vector<float> q(2048, 0.0f);
  std::vector<float> out(2048);
  std::vector<std::byte> scratch(DecodeAttentionScratchBytes(shape.attention, 512, 1));
  const auto run = [&](const DecodeAttentionShape& attention, const SequenceCache& cache,
                       const RopeView& view) {
    return DecodeAttention(attention, 1, &cache, q.data(), view, out.data(), scratch.data(),
                           stream);
  };
  const auto run_with = [&](auto edit) {
    SequenceCache cache = compact.cache();
    edit(cache);
    return run(shape.attention, cache, rope.view());
  };
  EXPECT_EQ(run(shape.attention, compact.cache(), rope.view()), Status::kOk);
  EXPECT_EQ(run(shape.attention, dense.cache(), rope.view()), Status::kOk);
  EXPECT_EQ(DecodeAttention(shape.attention, 0, nullptr, nullptr, rope.view(), nullptr,
                            scratch.data(), stream),
            Status::kOk);
  EXPECT_EQ(run({3, 2, 64}, dense.cache(), rope.view()), Status::kInvalidShape);
  EXPECT_EQ(run({0, 2, 64}, dense.cache(), rope.view()), Status::kInvalidShape);
  EXPECT_EQ(run({4, 0, 64}, dense.cache(), rope.view()), Status::kInvalidShape);
  EXPECT_EQ(run({4, 2, 60}, dense.cache(), rope.view()), Status::kInvalidShape);
  EXPECT_EQ(run({4, 2, 1032}, dense.cache(), rope.view()), Status::kUnsupported);
  EXPECT_EQ(run({4, 2, 72}, compact.cache(), rope.view()), Status::kInvalidShape);
  EXPECT_EQ(run({4, 1, 64}, compact.cache(), rope.view()), Status::kInvalidShape);
  EXPECT_EQ(run(shape.attention, SequenceCache{}, rope.view()), Status::kInvalidShape) << "empty";
  RopeView short_rope = rope.view();
  short_rope.num_positions = 299;
  EXPECT_EQ(run(shape.attention, compact.cache(), short_rope), Status::kInvalidShape);
  EXPECT_EQ(run(shape.attention, dense.cache(), short_rope), Status::kOk);
  using Cache = SequenceCache;
  const Status invalid = Status::kInvalidShape;
  EXPECT_EQ(run_with([](Cache& c) { c.num_generated = -1; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.blocks = nullptr; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.window_len = 0; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.window_len = 300; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.num_anchors = 31; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.num_anchors = 513; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.num_pins = -1; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.pair_order = nullptr; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.key_gain = nullptr; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.num_pins = c.compact.num_anchors - 31; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.key.coarse.mask = nullptr; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.key.fine.prefix = nullptr; }), invalid);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.key.fine.mask = nullptr; }), Status::kOk);
  EXPECT_EQ(run_with([](Cache& c) { c.compact.value.anchor = nullptr; }), invalid);
}

INSTANTIATE_FOR_EVERY_ISA(DecodeAttentionTest);

}  // namespace
}  // namespace anchorage::kernels
