#include "kv/cache_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::kv {
namespace {

absl::Status CheckHeader(const CacheHeader& header) {
  const std::string problem = CheckPlan(header.geometry, header.options, header.seq_len, 0);
  if (!problem.empty()) return Invalid("saved cache: %s", problem);
  const std::vector<double>& rope = header.rope_frequencies;
  if (static_cast<int64_t>(rope.size()) != header.geometry.head_dim / 2 ||
      !std::all_of(rope.begin(), rope.end(), [](double f) { return std::isfinite(f); })) {
    return Invalid("saved cache: rope frequencies must be %d finite numbers",
                   header.geometry.head_dim / 2);
  }
  return absl::OkStatus();
}

}  // namespace

CacheFileSink::CacheFileSink(std::string path, const CacheHeader& header)
    : path_(std::move(path)), partial_path_(path_ + ".partial"), header_(header) {}

absl::StatusOr<std::unique_ptr<CacheFileSink>> CacheFileSink::Create(const std::string& directory,
                                                                     const CacheHeader& header) {
  RETURN_IF_ERROR(CheckHeader(header));
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::ErrnoToStatus(error.value(), "creating " + directory);
  const std::string path = (std::filesystem::path(directory) / kCacheFileName).string();
  std::unique_ptr<CacheFileSink> sink(new CacheFileSink(path, header));
  sink->file_.reset(std::fopen(sink->partial_path_.c_str(), "wb"));
  if (sink->file_ == nullptr) return absl::ErrnoToStatus(errno, "opening " + sink->partial_path_);
  RETURN_IF_ERROR(sink->Write(SerializeHeader(header)));
  return sink;
}

CacheFileSink::~CacheFileSink() {
  if (file_ == nullptr) return;
  file_.reset();
  std::remove(partial_path_.c_str());
}

absl::Status CacheFileSink::OnLayer(int layer, CompressedLayer&& cache) {
  const CompressedLayer taken = std::move(cache);
  if (complete() || layer != next_layer_) {
    return Invalid("saved cache: layer %d where %d was due, of %d", layer, next_layer_,
                   header_.geometry.num_layers);
  }
  const LayerPlan plan = PlanLayer(header_.geometry, header_.options, header_.seq_len, layer);
  const auto region_bytes = static_cast<int64_t>(taken.region.size());
  if (taken.plan.layout != plan.layout || region_bytes != plan.region_bytes) {
    return Invalid("saved cache: layer %d has %d bytes (%s), the plan says %d (%s)", layer,
                   region_bytes, LayoutName(taken.plan.layout), plan.region_bytes,
                   LayoutName(plan.layout));
  }
  RETURN_IF_ERROR(Write(SerializeLayerHead(layer, region_bytes, taken.checksum)));
  RETURN_IF_ERROR(Write(taken.region.span()));
  ++next_layer_;
  return complete() ? Finish() : absl::OkStatus();
}

absl::Status CacheFileSink::Write(std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size()) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "writing " + partial_path_);
}

absl::Status CacheFileSink::Finish() {
  if (std::fclose(file_.release()) != 0) {
    return absl::ErrnoToStatus(errno, "writing " + partial_path_);
  }
  if (std::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, "renaming " + partial_path_);
  }
  return absl::OkStatus();
}

}  // namespace anchorage::kv
