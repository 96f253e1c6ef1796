#include "kv/layer_cache.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kv/layouts/slot_index.h"
#include "kv/tensor_span.h"
#include "tests/kv/layer_fixture.h"

namespace anchorage::kv {
namespace {

using testing::HasSubstr;

PlanOptions Options(Layout layout, int64_t theta_ppm = 100'000) {
  PlanOptions options;
  options.layout = layout;
  options.theta_ppm = theta_ppm;
  return options;
}

CompressedLayer Compress(const MadeUpLayer& layer, Layout layout) {
  auto result = layer.Compress(Options(layout));
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

TEST(ChecksumTest, IsXxh3OfTheBytes) {
  // The published value of XXH3-64 for an empty input with seed 0.
  EXPECT_EQ(Checksum({}), 0x2d06800538d394c2ull);
}

// ---- MapLayer ----

TEST(MapLayerTest, PointsIntoTheRegion) {
  const MadeUpLayer layer({700, 2, 4, 64});
  const CompressedLayer compressed = Compress(layer, Layout::kCompact);
  const auto region = compressed.region.span();
  const auto cache = MapLayer(compressed.plan, region);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ(cache->prefix, kernels::SequenceCache::Prefix::kCompact);
  EXPECT_EQ(cache->compact.num_kv_heads, 2);
  EXPECT_EQ(cache->compact.head_dim, 64);
  EXPECT_EQ(cache->compact.seq_len, 700);
  EXPECT_EQ(cache->compact.num_anchors, 48);
  EXPECT_EQ(cache->compact.window_len, 32);
  const auto at = [&](const char* name) {
    return static_cast<const void*>(region.data() + compressed.plan.Find(name)->offset);
  };
  EXPECT_EQ(cache->compact.num_pins, 4);
  EXPECT_EQ(cache->compact.pair_order, at("pair_order_k"));
  EXPECT_EQ(cache->compact.key_gain, at("key_gain_k"));
  EXPECT_EQ(cache->compact.key.anchor, at("anchor_k"));
  EXPECT_EQ(cache->compact.value.anchor, at("anchor_v"));
  EXPECT_EQ(cache->compact.key.idx, at("idx_k"));
  EXPECT_EQ(cache->compact.value.proj, at("proj_v"));
  EXPECT_EQ(cache->compact.key.proj_level, at("proj_level_k"));
  EXPECT_EQ(cache->compact.key.coarse.prefix, at("prefix_k"));
  EXPECT_EQ(cache->compact.value.coarse.codes, at("codes_v"));
  EXPECT_EQ(cache->compact.value.coarse.scale, at("scale_v"));
}

TEST(MapLayerTest, MapsFineSlots) {
  const MadeUpLayer layer({1500, 2, 4, 64});
  PlanOptions no_fine = Options(Layout::kCompact, 50'000);
  no_fine.fine_share_ppm = 0;
  const auto coarse = layer.Compress(no_fine);
  ASSERT_TRUE(coarse.ok());
  const auto coarse_cache = MapLayer(coarse->plan, coarse->region.span());
  ASSERT_TRUE(coarse_cache.ok());
  EXPECT_EQ(coarse_cache->compact.key.fine.mask, nullptr);
  const auto compressed = layer.Compress(Options(Layout::kCompact, 300'000));
  ASSERT_TRUE(compressed.ok());
  const auto region = compressed->region.span();
  const auto cache = MapLayer(compressed->plan, region);
  ASSERT_TRUE(cache.ok()) << cache.status();
  const auto at = [&](const char* name) {
    return static_cast<const void*>(region.data() + compressed->plan.Find(name)->offset);
  };
  EXPECT_EQ(cache->compact.key.fine.mask, at("fine_mask_k"));
  EXPECT_EQ(cache->compact.value.fine.prefix, at("fine_prefix_v"));
  EXPECT_EQ(cache->compact.key.fine.offset, at("fine_offset_k"));
  EXPECT_EQ(cache->compact.value.fine.codes, at("fine_codes_v"));
  EXPECT_EQ(cache->compact.key.fine.scale, at("fine_scale_k"));
}

TEST(MapLayerTest, MapsDenseLayers) {
  const MadeUpLayer layer({100, 2, 4, 64});
  const CompressedLayer compressed = Compress(layer, Layout::kDense);
  const auto cache = MapLayer(compressed.plan, compressed.region.span());
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(cache->prefix, kernels::SequenceCache::Prefix::kDense);
  EXPECT_EQ(cache->dense.seq_len, 100);
  EXPECT_EQ(static_cast<const void*>(cache->dense.k), compressed.region.data());
}

TEST(MapLayerTest, MapsRetainedRowsAsAShorterDenseLayer) {
  const MadeUpLayer layer({700, 2, 4, 64});
  for (const Layout layout : {Layout::kSnapKv, Layout::kRecent}) {
    const CompressedLayer compressed = Compress(layer, layout);
    const auto cache = MapLayer(compressed.plan, compressed.region.span());
    ASSERT_TRUE(cache.ok());
    EXPECT_EQ(cache->prefix, kernels::SequenceCache::Prefix::kDense);
    EXPECT_EQ(cache->dense.seq_len, 126);
    EXPECT_EQ(static_cast<const void*>(cache->dense.v),
              compressed.region.data() + compressed.plan.Find("retained_v")->offset);
  }
}

TEST(MapLayerTest, RefusesWrongSizesAlignmentAndThePaperLayout) {
  const MadeUpLayer layer({300, 1, 1, 64});
  const CompressedLayer compact = Compress(layer, Layout::kCompact);
  const auto region = compact.region.span();
  EXPECT_EQ(MapLayer(compact.plan, region.first(region.size() - 64)).status().code(),
            absl::StatusCode::kInvalidArgument);
  AlignedBuffer shifted(region.size() + 64);
  EXPECT_EQ(MapLayer(compact.plan, shifted.span().subspan(8, region.size())).status().code(),
            absl::StatusCode::kInvalidArgument);
  const CompressedLayer paper = Compress(layer, Layout::kPaper);
  EXPECT_EQ(MapLayer(paper.plan, paper.region.span()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// ---- VerifyLayer ----

// Layers that are damaged in one place at a time.
class VerifyLayerTest : public testing::Test {
 protected:
  // Writes `value` over element `index` of a tensor and tells what verification says.
  template <typename T>
  std::string Damage(CompressedLayer& layer, const char* name, int64_t index, T value) {
    const std::span<T> tensor = TensorSpan<T>(layer.plan, layer.region.span(), name);
    if (index < 0) index += static_cast<int64_t>(tensor.size());
    const T before = tensor[static_cast<size_t>(index)];
    tensor[static_cast<size_t>(index)] = value;
    const absl::Status status = VerifyLayer(layer.plan, layer.region.span());
    tensor[static_cast<size_t>(index)] = before;
    EXPECT_EQ(VerifyLayer(layer.plan, layer.region.span()), absl::OkStatus());
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << name << " " << index;
    return std::string(status.message());
  }

  const float nan_ = std::numeric_limits<float>::quiet_NaN();
  const kernels::Bf16 bad_bf16_ = kernels::ToBf16(std::numeric_limits<float>::infinity());
};

TEST_F(VerifyLayerTest, FindsEveryKindOfDamageInACompactLayer) {
  const MadeUpLayer made({700, 2, 4, 64});
  CompressedLayer layer = Compress(made, Layout::kCompact);
  ASSERT_EQ(layer.plan.prefix_len(), 668);  // the last word has 28 bits

  EXPECT_THAT(Damage(layer, "anchor_exponent_k", 5, int8_t{121}), HasSubstr("exponent of 121"));
  EXPECT_THAT(Damage(layer, "anchor_exponent_v", -1, int8_t{-127}), HasSubstr("exponent_v"));
  // Six bits an index: byte 12 holds that of position 16 and the lowest bits of the next.
  EXPECT_THAT(Damage(layer, "idx_k", 12, uint8_t{63}), HasSubstr("position 16 points at"));
  // The last group has four positions of eight, so they end in its third byte of six.
  EXPECT_THAT(Damage(layer, "idx_v", -4, uint8_t{255}), HasSubstr("idx_v"));
  EXPECT_THAT(Damage(layer, "idx_k", 0, uint8_t{1}), HasSubstr("does not point at itself"));
  EXPECT_THAT(Damage(layer, "proj_level_k", 17, nan_), HasSubstr("proj_level_k"));
  for (const float bad : {nan_, -1.0f}) {
    EXPECT_THAT(Damage(layer, "scale_v", 0, kernels::ToBf16(bad)), HasSubstr("scale_v"));
  }
  const auto pair_order =
      TensorSpan<const uint8_t>(layer.plan, layer.region.span(), "pair_order_k");
  EXPECT_THAT(Damage(layer, "pair_order_k", 1, pair_order[0]), HasSubstr("does not belong"));
  EXPECT_THAT(Damage(layer, "pair_order_k", -1, uint8_t{32}), HasSubstr("pair 32 of 32"));
  EXPECT_THAT(Damage(layer, "key_gain_k", 2, nan_), HasSubstr("key_gain_k"));
  EXPECT_THAT(Damage(layer, "key_gain_k", 3, -1.0f), HasSubstr("key_gain_k"));
  EXPECT_THAT(Damage(layer, "mask_k", 10, uint64_t{1} << 28), HasSubstr("behind position 667"));
  EXPECT_THAT(Damage(layer, "mask_v", 0, ~uint64_t{0}), HasSubstr("prefix_v"));
  EXPECT_THAT(Damage(layer, "prefix_k", 3, uint32_t{0xffffffff}), HasSubstr("prefix_k"));
  EXPECT_THAT(Damage(layer, "offset_k", 0, uint32_t{1}), HasSubstr("offset_k"));
  EXPECT_THAT(Damage(layer, "offset_v", 1, uint32_t{0}), HasSubstr("offset_v"));
  EXPECT_THAT(Damage(layer, "offset_v", 2, uint32_t{0}), HasSubstr("where the plan has"));
}

TEST_F(VerifyLayerTest, FindsAnAnchorWithASlot) {
  const MadeUpLayer made({700, 1, 1, 64});
  CompressedLayer layer = Compress(made, Layout::kCompact);
  // Move the first slot of the head to the anchor at position 0: all counts stay right.
  const auto mask = TensorSpan<uint64_t>(layer.plan, layer.region.span(), "mask_k");
  ASSERT_NE(mask[0], 0u);
  mask[0] = (mask[0] & (mask[0] - 1)) | 1;
  EXPECT_THAT(std::string(VerifyLayer(layer.plan, layer.region.span()).message()),
              HasSubstr("slot for the anchor at position 0"));
}

TEST_F(VerifyLayerTest, FindsEveryKindOfDamageInFineSlots) {
  const MadeUpLayer made({700, 2, 4, 64});
  auto compressed = made.Compress(Options(Layout::kCompact, 150'000));
  ASSERT_TRUE(compressed.ok());
  CompressedLayer& layer = *compressed;
  ASSERT_GT(layer.plan.key_fine_slots, 0);
  ASSERT_LT(layer.plan.key_slots, 2 * (700 - 48)) << "some positions have no first code";
  for (const float bad : {nan_, -1.0f}) {
    EXPECT_THAT(Damage(layer, "fine_scale_v", 0, kernels::ToBf16(bad)), HasSubstr("fine_scale_v"));
  }
  EXPECT_THAT(Damage(layer, "fine_mask_k", 10, uint64_t{1} << 28), HasSubstr("fine_mask_k"));
  EXPECT_THAT(Damage(layer, "fine_mask_v", 0, ~uint64_t{0}), HasSubstr("fine_prefix_v"));
  EXPECT_THAT(Damage(layer, "fine_prefix_k", 3, uint32_t{0xffffffff}), HasSubstr("fine_prefix_k"));
  EXPECT_THAT(Damage(layer, "fine_offset_k", 0, uint32_t{1}), HasSubstr("fine_offset_k"));
  EXPECT_THAT(Damage(layer, "fine_offset_v", 2, uint32_t{0}), HasSubstr("where the plan has"));
  // A fine slot moved to where there is no first code: all counts stay right.
  const std::span<std::byte> region = layer.region.span();
  const MutableSlotIndex fine = MapSlots(layer.plan, region, Side::kKey, Stage::kFine);
  const MutableSlotIndex coarse = MapSlots(layer.plan, region, Side::kKey);
  for (size_t word = 0; word < fine.mask.size(); ++word) {
    // Not in the last, half empty word of a head.
    if (word % 11 == 10 || fine.mask[word] == 0 || ~coarse.mask[word] == 0) continue;
    const uint64_t before = fine.mask[word];
    const uint64_t without = ~coarse.mask[word];
    fine.mask[word] = (before & (before - 1)) | (without & -without);
    EXPECT_THAT(std::string(VerifyLayer(layer.plan, region).message()),
                HasSubstr("where the mask has none"));
    fine.mask[word] = before;
    return;
  }
  FAIL() << "no word to damage";
}

// K then has a fine mask but no fine slot.
TEST_F(VerifyLayerTest, ChecksTheMaskOfASideWithoutFineSlots) {
  const MadeUpLayer made({565, 1, 1, 8});
  PlanOptions options = Options(Layout::kCompact);
  options.fine_share_ppm = 0;
  const auto fine_slots = [&] {
    const LayerPlan plan = PlanLayer(made.geometry(), options, 565, 3);
    return plan.key_fine_slots + plan.value_fine_slots;
  };
  while (fine_slots() < 1) options.theta_ppm += 50;
  while (fine_slots() > 1) options.theta_ppm -= 10;
  ASSERT_EQ(fine_slots(), 1);
  auto compressed = made.Compress(options);
  ASSERT_TRUE(compressed.ok());
  ASSERT_EQ(compressed->plan.key_fine_slots, 0);
  EXPECT_THAT(Damage(*compressed, "fine_mask_k", 1, uint64_t{4}), HasSubstr("fine_prefix_k"));
  EXPECT_THAT(Damage(*compressed, "fine_prefix_k", 1, uint32_t{7}), HasSubstr("fine_prefix_k"));
}

TEST_F(VerifyLayerTest, ChecksIndicesOfNineBits) {
  // A region of 300 anchors made by hand: zeros everywhere but where the checks look.
  const Geometry geometry = {1, 1, 8};
  PlanOptions options = Options(Layout::kCompact, 200'000);
  options.fine_share_ppm = 0;
  CompressedLayer layer;
  layer.plan = PlanLayer(geometry, options, 300 * 128, 0);
  ASSERT_EQ(layer.plan.num_anchors, 300);
  ASSERT_EQ(layer.plan.key_fine_slots, 0);
  layer.region = AlignedBuffer(static_cast<size_t>(layer.plan.region_bytes));
  const auto region = layer.region.span();
  const auto pair_order = TensorSpan<uint8_t>(layer.plan, region, "pair_order_k");
  std::iota(pair_order.begin(), pair_order.end(), 0);
  for (uint32_t pin = 0; pin < 4; ++pin) {
    for (const char* name : {"idx_k", "idx_v"}) {
      const auto idx = TensorSpan<uint8_t>(layer.plan, region, name);
      for (uint32_t bit = 0; bit < 9; ++bit) {
        idx[(pin * 9 + bit) / 8] |= static_cast<uint8_t>((pin >> bit & 1) << ((pin * 9 + bit) % 8));
      }
    }
  }
  for (const Side side : kSides) {
    const MutableSlotIndex slots = MapSlots(layer.plan, region, side);
    int64_t left = side == Side::kKey ? layer.plan.key_slots : layer.plan.value_slots;
    uint32_t count = 0;
    for (int64_t position = 0; position < layer.plan.prefix_len(); ++position) {
      if (position % 64 == 0) slots.prefix[position / 64] = count;
      if (position < 4 || left == 0) continue;
      slots.mask[position / 64] |= uint64_t{1} << (position % 64);
      ++count;
      --left;
    }
    ASSERT_EQ(left, 0);
    slots.offset[1] = count;
  }
  ASSERT_EQ(VerifyLayer(layer.plan, region), absl::OkStatus());
  // The ninth bit of position 0 is the lowest of byte 1, that of position 7 the highest of byte 8.
  EXPECT_THAT(Damage(layer, "idx_k", 1, uint8_t{1}), HasSubstr("itself"));
  EXPECT_THAT(Damage(layer, "idx_v", 8, uint8_t{0xff}),
              HasSubstr("position 7 points at anchor 510"));
}

TEST_F(VerifyLayerTest, FindsEveryKindOfDamageInAPaperLayer) {
  const MadeUpLayer made({700, 2, 4, 64});
  CompressedLayer layer = Compress(made, Layout::kPaper);
  EXPECT_THAT(Damage(layer, "anchor_pos", 0, int64_t{-1}), HasSubstr("anchor_pos"));
  EXPECT_THAT(Damage(layer, "anchor_pos", -1, int64_t{1} << 40), HasSubstr("anchor_pos"));
  EXPECT_THAT(Damage(layer, "idx_k", 3, uint16_t{64}), HasSubstr("idx_k"));
  EXPECT_THAT(Damage(layer, "gamma_v", 9, bad_bf16_), HasSubstr("gamma_v"));
  EXPECT_THAT(Damage(layer, "scale_k", 0, nan_), HasSubstr("scale_k"));
  EXPECT_THAT(Damage(layer, "token_pos", 5, int32_t{6}), HasSubstr("token_pos"));
  const auto low = TensorSpan<const uint8_t>(layer.plan, layer.region.span(), "slot_pos_v");
  EXPECT_THAT(Damage(layer, "slot_pos_v", 0, static_cast<uint8_t>(low[0] + 1)),
              HasSubstr("slot_pos_v"));
}

TEST_F(VerifyLayerTest, FindsEveryKindOfDamageInRetainedRows) {
  const MadeUpLayer made({700, 2, 4, 64});
  for (const Layout layout : {Layout::kSnapKv, Layout::kRecent}) {
    CompressedLayer layer = Compress(made, layout);
    const auto positions =
        TensorSpan<const uint32_t>(layer.plan, layer.region.span(), "retained_pos");
    EXPECT_THAT(Damage(layer, "retained_pos", 1, positions[0]), HasSubstr("retained_pos: head 0"));
    EXPECT_THAT(Damage(layer, "retained_pos", 5, positions[4] - 1), HasSubstr("head 0"));
    EXPECT_THAT(Damage(layer, "retained_pos", -1, uint32_t{700}), HasSubstr("head 1"));
    EXPECT_THAT(Damage(layer, "retained_pos", 125, ~uint32_t{0}), HasSubstr("of 700"));
    EXPECT_THAT(Damage(layer, "retained_k", 77, kernels::ToBf16(nan_)), HasSubstr("retained_k"));
    EXPECT_THAT(Damage(layer, "retained_v", -1, bad_bf16_), HasSubstr("retained_v"));
  }
}

TEST_F(VerifyLayerTest, FindsNaNInADenseLayer) {
  const MadeUpLayer made({100, 2, 4, 64});
  CompressedLayer layer = Compress(made, Layout::kDense);
  EXPECT_THAT(Damage(layer, "k", 77, kernels::ToBf16(nan_)), HasSubstr("k: NaN or Inf"));
  EXPECT_THAT(Damage(layer, "v", -1, bad_bf16_), HasSubstr("element 12799"));
}

TEST_F(VerifyLayerTest, RefusesAnotherSize) {
  const MadeUpLayer made({300, 1, 1, 64});
  const CompressedLayer layer = Compress(made, Layout::kCompact);
  const auto region = layer.region.span();
  EXPECT_EQ(VerifyLayer(layer.plan, region.first(region.size() - 64)).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(VerifyLayer(layer.plan, {}).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace anchorage::kv
