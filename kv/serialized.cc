#include "kv/serialized.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "common/status.h"
#include "common/status_macros.h"
#include "kv/layer_cache.h"

namespace anchorage::kv {
namespace {

static_assert(std::endian::native == std::endian::little, "regions are used as they are stored");

constexpr char kMagic[8] = {'A', 'N', 'C', 'H', 'O', 'R', 'K', 'V'};
constexpr int64_t kChecksumStart = 32;  // the header's checksum covers what follows
constexpr int64_t kFixedBytes = 176;    // before the rope frequencies
constexpr uint64_t kMaxRates = 1024;    // of a profile; the plan allows fewer

constexpr int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int64_t HeaderBytes(const Geometry& geometry, int64_t num_rates) {
  const int64_t numbers = geometry.head_dim / 2 + num_rates * (1 + geometry.num_layers);
  return RoundUp(kFixedBytes + 8 * numbers, kTensorAlignment);
}

int64_t HeaderBytes(const CacheHeader& header) {
  return HeaderBytes(header.geometry,
                     static_cast<int64_t>(header.options.profile.millibits.size()));
}

// The signed fields in the order of the file.
constexpr int64_t PlanOptions::*kOptionFields[] = {
    &PlanOptions::theta_ppm,      &PlanOptions::window_len,  &PlanOptions::num_pins,
    &PlanOptions::rho_ppm,        &PlanOptions::pool_width,  &PlanOptions::utility_pool_width,
    &PlanOptions::fine_share_ppm, &PlanOptions::floor_tokens};
constexpr int64_t Geometry::*kGeometryFields[] = {&Geometry::num_layers, &Geometry::num_kv_heads,
                                                  &Geometry::head_dim};

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Precondition of Get: the caller has checked that the bytes are there.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  bool RestIsZero() const {
    return std::all_of(bytes_.begin(), bytes_.end(), [](std::byte b) { return b == std::byte{}; });
  }

 private:
  std::span<const std::byte> bytes_;
};

absl::Status CheckVersions(Reader& reader) {
  if (const auto magic = reader.Get<std::array<char, 8>>();
      std::memcmp(magic.data(), kMagic, sizeof(kMagic)) != 0) {
    return Invalid("not a saved cache: it does not begin with ANCHORKV");
  }
  const auto format = reader.Get<uint32_t>();
  const auto layout = reader.Get<uint32_t>();
  if (format != kCacheFormatVersion || layout != kLayoutVersion) {
    return Invalid("saved cache of format %d, layout version %d; this program reads %d, %d", format,
                   layout, kCacheFormatVersion, kLayoutVersion);
  }
  return absl::OkStatus();
}

absl::Status CheckEnums(uint32_t layout, uint32_t packing) {
  if (layout > static_cast<uint32_t>(Layout::kRecent)) return DataLoss("unknown layout %d", layout);
  if (packing > static_cast<uint32_t>(kernels::CodePacking::kPlanar)) {
    return DataLoss("unknown code packing %d", packing);
  }
  return absl::OkStatus();
}

absl::Status CheckHeaderPlan(const CacheHeader& header) {
  const std::string problem = CheckPlan(header.geometry, header.options, header.seq_len, 0);
  return problem.empty() ? absl::OkStatus() : DataLoss("header: %s", problem);
}

void ParseProfile(Reader& reader, uint64_t num_rates, CacheHeader& header) {
  Profile& profile = header.options.profile;
  const uint64_t num_errors = num_rates * static_cast<uint64_t>(header.geometry.num_layers);
  for (uint64_t i = 0; i < num_rates; ++i) profile.millibits.push_back(reader.Get<int64_t>());
  for (uint64_t i = 0; i < num_errors; ++i) profile.nanonats.push_back(reader.Get<int64_t>());
  if (num_rates == 0) return;
  profile.num_kv_heads = header.geometry.num_kv_heads;
  profile.head_dim = header.geometry.head_dim;
}

absl::StatusOr<CacheHeader> ParseHeader(std::span<const std::byte> file) {
  if (static_cast<int64_t>(file.size()) < kFixedBytes) {
    return Invalid("not a saved cache: %d bytes are too few", file.size());
  }
  Reader reader(file);
  RETURN_IF_ERROR(CheckVersions(reader));
  const auto header_bytes = reader.Get<uint64_t>();
  const auto checksum = reader.Get<uint64_t>();

  CacheHeader header;
  const auto layout = reader.Get<uint32_t>();
  const auto packing = reader.Get<uint32_t>();
  RETURN_IF_ERROR(CheckEnums(layout, packing));
  header.options.layout = static_cast<Layout>(layout);
  header.packing = static_cast<kernels::CodePacking>(packing);
  for (int64_t Geometry::*field : kGeometryFields) header.geometry.*field = reader.Get<int64_t>();
  header.seq_len = reader.Get<int64_t>();
  for (int64_t PlanOptions::*field : kOptionFields) header.options.*field = reader.Get<int64_t>();
  header.options.seed = reader.Get<uint64_t>();
  const auto plan_fingerprint = reader.Get<uint64_t>();
  header.model_fingerprint = reader.Get<uint64_t>();
  const auto rope_pairs = reader.Get<uint64_t>();
  const auto num_rates = reader.Get<uint64_t>();

  RETURN_IF_ERROR(CheckHeaderPlan(header));
  if (rope_pairs != static_cast<uint64_t>(header.geometry.head_dim / 2)) {
    return DataLoss("header: %d rope pairs for a head of %d", rope_pairs, header.geometry.head_dim);
  }
  if (num_rates > kMaxRates) return DataLoss("header: a profile of %d rates", num_rates);
  const int64_t expected = HeaderBytes(header.geometry, static_cast<int64_t>(num_rates));
  if (header_bytes != static_cast<uint64_t>(expected) ||
      static_cast<int64_t>(file.size()) < expected) {
    return DataLoss("header: %d bytes, of a file of %d, where %d are needed", header_bytes,
                    file.size(), expected);
  }
  if (Checksum(file.subspan(kChecksumStart, static_cast<size_t>(expected - kChecksumStart))) !=
      checksum) {
    return DataLoss("header: the checksum is wrong");
  }
  Reader rest(file.subspan(kFixedBytes, static_cast<size_t>(expected - kFixedBytes)));
  for (uint64_t pair = 0; pair < rope_pairs; ++pair) {
    const auto frequency = rest.Get<double>();
    if (!std::isfinite(frequency)) return DataLoss("header: rope pair %d is NaN or Inf", pair);
    header.rope_frequencies.push_back(frequency);
  }
  ParseProfile(rest, num_rates, header);
  if (!rest.RestIsZero()) return DataLoss("header: its padding is not zero");
  RETURN_IF_ERROR(CheckHeaderPlan(header));
  if (plan_fingerprint != PlanFingerprint(header.geometry, header.options)) {
    return DataLoss("header: the plan fingerprint does not belong to the plan");
  }
  return header;
}

// `bytes` begins at the layer's head; its region is there.
absl::StatusOr<SavedLayer> ParseLayer(std::span<const std::byte> bytes, int64_t layer,
                                      const LayerPlan& plan) {
  Reader reader(bytes.first(kLayerHeadBytes));
  const auto number = reader.Get<uint64_t>();
  const auto region_bytes = reader.Get<uint64_t>();
  SavedLayer saved;
  saved.plan = plan;
  saved.checksum = reader.Get<uint64_t>();
  if (number != static_cast<uint64_t>(layer)) {
    return DataLoss("layer %d stands where layer %d should", number, layer);
  }
  if (region_bytes != static_cast<uint64_t>(plan.region_bytes)) {
    return DataLoss("layer %d: %d bytes where the plan has %d", layer, region_bytes,
                    plan.region_bytes);
  }
  if (!reader.RestIsZero()) return DataLoss("layer %d: the padding of its head is not zero", layer);
  saved.region = bytes.subspan(kLayerHeadBytes, static_cast<size_t>(plan.region_bytes));
  return saved;
}

}  // namespace

std::vector<std::byte> SerializeHeader(const CacheHeader& header) {
  const int64_t header_bytes = HeaderBytes(header);
  const Profile& profile = header.options.profile;
  Writer writer;
  for (const char c : kMagic) writer.Put(c);
  writer.Put(kCacheFormatVersion);
  writer.Put(kLayoutVersion);
  writer.Put(static_cast<uint64_t>(header_bytes));
  writer.Put(uint64_t{0});  // the checksum, below
  writer.Put(static_cast<uint32_t>(header.options.layout));
  writer.Put(static_cast<uint32_t>(header.packing));
  for (const int64_t Geometry::*field : kGeometryFields) writer.Put(header.geometry.*field);
  writer.Put(header.seq_len);
  for (const int64_t PlanOptions::*field : kOptionFields) writer.Put(header.options.*field);
  writer.Put(header.options.seed);
  writer.Put(PlanFingerprint(header.geometry, header.options));
  writer.Put(header.model_fingerprint);
  writer.Put(static_cast<uint64_t>(header.rope_frequencies.size()));
  writer.Put(static_cast<uint64_t>(profile.millibits.size()));
  for (const double frequency : header.rope_frequencies) writer.Put(frequency);
  for (const int64_t rate : profile.millibits) writer.Put(rate);
  for (const int64_t error : profile.nanonats) writer.Put(error);
  std::vector<std::byte>& bytes = writer.bytes();
  bytes.resize(static_cast<size_t>(header_bytes));
  const uint64_t checksum = Checksum(std::span<const std::byte>(bytes).subspan(kChecksumStart));
  std::memcpy(&bytes[24], &checksum, sizeof(checksum));
  return std::move(bytes);
}

std::array<std::byte, kLayerHeadBytes> SerializeLayerHead(int64_t layer, int64_t region_bytes,
                                                          uint64_t checksum) {
  const uint64_t fields[] = {static_cast<uint64_t>(layer), static_cast<uint64_t>(region_bytes),
                             checksum};
  std::array<std::byte, kLayerHeadBytes> head = {};
  std::memcpy(head.data(), fields, sizeof(fields));
  return head;
}

absl::StatusOr<SavedCache> ParseCache(std::span<const std::byte> file) {
  if (reinterpret_cast<uintptr_t>(file.data()) % kTensorAlignment != 0) {
    return Invalid("the bytes of a saved cache must begin on %d bytes", kTensorAlignment);
  }
  SavedCache cache;
  ASSIGN_OR_RETURN(cache.header, ParseHeader(file));
  const int64_t num_layers = cache.header.geometry.num_layers;
  const auto size = static_cast<int64_t>(file.size());
  if (size / kLayerHeadBytes < num_layers) {
    return DataLoss("%d bytes are too few for %d layers", size, num_layers);
  }
  const RequestPlan plan =
      PlanRequest(cache.header.geometry, cache.header.options, cache.header.seq_len, 0);
  int64_t offset = HeaderBytes(cache.header);
  const int64_t expected = offset + num_layers * kLayerHeadBytes + plan.region_bytes;
  if (size != expected) {
    return DataLoss("a file of %d bytes whose header asks for %d", size, expected);
  }
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    ASSIGN_OR_RETURN(SavedLayer saved, ParseLayer(file.subspan(static_cast<size_t>(offset)), layer,
                                                  plan.layers[layer]));
    offset += kLayerHeadBytes + saved.plan.region_bytes;
    cache.layers.push_back(std::move(saved));
  }
  return cache;
}

absl::Status VerifySavedLayer(const SavedLayer& layer) {
  if (Checksum(layer.region) != layer.checksum) return DataLoss("the checksum is wrong");
  return VerifyLayer(layer.plan, layer.region);
}

std::vector<double> RopeFrequencies(double theta, int64_t head_dim,
                                    std::span<const float> divisors) {
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    const double divisor = divisors.empty() ? 1.0 : divisors[static_cast<size_t>(pair)];
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim);
    frequencies.push_back(std::pow(theta, exponent) / divisor);
  }
  return frequencies;
}

}  // namespace anchorage::kv
