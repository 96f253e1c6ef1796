// A saved cache: the bytes of every layer as they would travel, behind a header that says what they
// mean. Little-endian; one file per prompt.
//
//   offset  type           field
//   0       char[8]        "ANCHORKV"
//   8       u32, u32       format version, layout version (kLayoutVersion)
//   16      u64            header bytes, a multiple of 64
//   24      u64            XXH3-64 of the header from offset 32 on
//   32      u32, u32       layout, code packing
//   40      i64 x 4        layers, KV heads, head_dim, prompt tokens
//   72      i64 x 8        theta ppm, window, pins, rho ppm, pool width, utility pool width, share
//                          of fine slots in ppm, floor tokens
//   136     u64 x 3        seed, plan fingerprint, model fingerprint
//   160     u64 x 2        rope pairs = head_dim / 2; rates of the profile, 0: equal shares
//   176     f64 [pairs]    radians that a pair turns from one position to the next
//   ...     i64 [rates]    millibits, then i64 [layers, rates] nanonats (plan/profile.h)
//   ...     zeros to a multiple of 64
// then for each layer, ascending: u64 layer, u64 region bytes, u64 XXH3-64 of the region, 40 zeros,
// and the region.
//
// Sizes follow from the header's numbers through the byte plan; nothing that a file says about a
// size is believed, only compared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/residual.h"
#include "kv/plan/plan.h"

namespace anchorage::kv {

inline constexpr uint32_t kCacheFormatVersion = 3;
inline constexpr int64_t kLayerHeadBytes = 64;

struct CacheHeader {
  Geometry geometry;
  PlanOptions options;
  int64_t seq_len = 0;
  kernels::CodePacking packing = kernels::CodePacking::kPlanar;
  uint64_t model_fingerprint = 0;
  std::vector<double> rope_frequencies;  // [head_dim / 2] radians per position
};

// One layer inside a parsed file.
struct SavedLayer {
  LayerPlan plan;
  uint64_t checksum = 0;              // as the file has it
  std::span<const std::byte> region;  // points into the file's bytes
};

struct SavedCache {
  CacheHeader header;
  std::vector<SavedLayer> layers;
};

// The header as it stands at the beginning of a file.
std::vector<std::byte> SerializeHeader(const CacheHeader& header);

// What stands before a layer's region.
std::array<std::byte, kLayerHeadBytes> SerializeLayerHead(int64_t layer, int64_t region_bytes,
                                                          uint64_t checksum);

// Reads the structure; regions stay where they are and are not looked into. `file` must begin on 64
// bytes and outlive the result.
// InvalidArgument: not a saved cache, or one of another version. DataLoss: a field is out of range
// or contradicts another, or the file is shorter or longer than its header says.
absl::StatusOr<SavedCache> ParseCache(std::span<const std::byte> file);

// The checksum, then everything a decoder would follow (VerifyLayer). DataLoss says what is wrong.
absl::Status VerifySavedLayer(const SavedLayer& layer);

// theta^(-2 j / head_dim) / divisors[j] for each pair j; `divisors` may be empty.
std::vector<double> RopeFrequencies(double theta, int64_t head_dim,
                                    std::span<const float> divisors);

}  // namespace anchorage::kv
