// Any bytes as a saved cache, and any damage to a layer that was good: what the reader and
// VerifyLayer let through must be safe to decode, by the reference and by the kernel that follows
// indices unchecked.
//
// The first byte chooses: 0..127 the rest is a file; 128..255 it picks a good layer, and the rest
// are patches of (u32 offset, u8 value) to its region. As random bytes never have a right checksum,
// a file is tried a second time with its header's checksum made right.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "common/aligned_buffer.h"
#include "kernels/decode_attention.h"
#include "kv/layer_cache.h"
#include "kv/layouts/reconstruct.h"
#include "kv/rope_table.h"
#include "kv/serialized.h"
#include "tests/kv/layer_fixture.h"

namespace anchorage::kv {
namespace {

// Larger layers only cost time.
constexpr int64_t kMostRegionBytes = 1 << 20;

void Require(bool holds) {
  if (!holds) std::abort();
}

AlignedBuffer Copy(std::span<const std::byte> bytes) {
  AlignedBuffer copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

// Precondition: the layer verifies.
void DecodeVerified(const LayerPlan& plan, std::span<const std::byte> region,
                    std::span<const double> rope_frequencies, kernels::CodePacking packing) {
  const RopeTable rope(rope_frequencies, plan.seq_len + 1);
  Require(ReconstructLayer(plan, region, rope.view(), packing).ok());
  const auto cache = MapLayer(plan, region);
  Require(cache.ok() == (plan.layout != Layout::kPaper));
  if (!cache.ok()) return;
  const kernels::DecodeAttentionShape shape = {static_cast<int>(plan.num_kv_heads),
                                               static_cast<int>(plan.num_kv_heads),
                                               static_cast<int>(plan.head_dim)};
  kernels::Stream stream(1);
  const std::vector<float> q(static_cast<size_t>(plan.num_kv_heads * plan.head_dim), 0.125f);
  std::vector<float> out(q.size());
  AlignedBuffer scratch(static_cast<size_t>(kernels::DecodeAttentionScratchBytes(
      shape, static_cast<int>(plan.num_anchors), stream.num_threads())));
  Require(kernels::DecodeAttention(shape, 1, &*cache, q.data(), rope.view(), out.data(),
                                   scratch.data(), stream) == kernels::Status::kOk);
}

void ReadFile(std::span<const std::byte> bytes) {
  const auto cache = ParseCache(bytes);
  if (!cache.ok()) return;
  for (const SavedLayer& layer : cache->layers) {
    Require(static_cast<int64_t>(layer.region.size()) == layer.plan.region_bytes);
    (void)VerifySavedLayer(layer);
    if (layer.plan.region_bytes > kMostRegionBytes) continue;
    if (!VerifyLayer(layer.plan, layer.region).ok()) continue;
    DecodeVerified(layer.plan, layer.region, cache->header.rope_frequencies, cache->header.packing);
  }
}

// Gives the header the checksum that its bytes have, where it says a size that is there.
void MakeHeaderChecksumRight(std::span<std::byte> file) {
  if (file.size() < 64) return;
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data() + 16, sizeof(header_bytes));
  if (header_bytes < 32 || header_bytes > file.size()) return;
  const uint64_t checksum = Checksum(file.subspan(32, static_cast<size_t>(header_bytes) - 32));
  std::memcpy(file.data() + 24, &checksum, sizeof(checksum));
}

struct GoodLayer {
  CompressedLayer layer;
  std::vector<double> rope_frequencies;
};

std::array<GoodLayer, 6> MakeGoodLayers() {
  const auto make = [](const LayerShape& shape, Layout layout) {
    PlanOptions options;
    options.layout = layout;
    options.theta_ppm = 200'000;
    auto compressed = MadeUpLayer(shape).Compress(options);
    Require(compressed.ok());
    Require(VerifyLayer(compressed->plan, compressed->region.span()).ok());
    return GoodLayer{*std::move(compressed), RopeFrequencies(10'000, shape.head_dim, {})};
  };
  return {make({200, 2, 2, 16}, Layout::kCompact), make({300, 1, 2, 64}, Layout::kCompact),
          make({40, 1, 1, 8}, Layout::kDense),     make({160, 2, 2, 16}, Layout::kPaper),
          make({160, 2, 2, 16}, Layout::kSnapKv),  make({160, 1, 1, 8}, Layout::kRecent)};
}

void PatchLayer(const GoodLayer& good, std::span<const std::byte> patches) {
  AlignedBuffer region = Copy(good.layer.region.span());
  constexpr size_t kPatchBytes = 5;
  for (; patches.size() >= kPatchBytes; patches = patches.subspan(kPatchBytes)) {
    uint32_t offset = 0;
    std::memcpy(&offset, patches.data(), sizeof(offset));
    region.data()[offset % region.size()] = patches[4];
  }
  if (!VerifyLayer(good.layer.plan, region.span()).ok()) return;
  DecodeVerified(good.layer.plan, region.span(), good.rope_frequencies,
                 kernels::CodePacking::kPlanar);
}

}  // namespace
}  // namespace anchorage::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anchorage::kv;  // NOLINT: the entry point cannot stand inside
  if (size == 0) return 0;
  const std::span<const std::byte> rest =
      std::as_bytes(std::span<const uint8_t>(data, size)).subspan(1);
  if (data[0] < 128) {
    anchorage::AlignedBuffer file = Copy(rest);
    ReadFile(file.span());
    MakeHeaderChecksumRight(file.span());
    ReadFile(file.span());
  } else {
    static const std::array<GoodLayer, 6> good_layers = MakeGoodLayers();
    PatchLayer(good_layers[data[0] % good_layers.size()], rest);
  }
  return 0;
}
