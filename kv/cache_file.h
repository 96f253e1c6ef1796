// Writes the layers of one prompt to a file as they become final.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kv/layer_sink.h"
#include "kv/serialized.h"

namespace anchorage::kv {

inline constexpr char kCacheFileName[] = "cache.anchorkv";

// Makes DIR/cache.anchorkv. Until its last layer the file is called cache.anchorkv.partial, so that
// a prefill that ended early leaves nothing that looks whole. Not thread-safe.
class CacheFileSink : public LayerSink {
 public:
  // Creates `directory` where it is missing and writes the header. InvalidArgument: the header's
  // numbers are out of range, or its rope frequencies are not head_dim / 2 finite numbers. Other
  // codes: what the file system said.
  static absl::StatusOr<std::unique_ptr<CacheFileSink>> Create(const std::string& directory,
                                                               const CacheHeader& header);
  ~CacheFileSink() override;
  CacheFileSink(const CacheFileSink&) = delete;
  CacheFileSink& operator=(const CacheFileSink&) = delete;

  // InvalidArgument: not the next layer, or one whose region is not as planned.
  absl::Status OnLayer(int layer, CompressedLayer&& cache) override;

  const std::string& path() const { return path_; }
  bool complete() const { return next_layer_ == header_.geometry.num_layers; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  CacheFileSink(std::string path, const CacheHeader& header);
  absl::Status Write(std::span<const std::byte> bytes);
  absl::Status Finish();

  std::string path_;
  std::string partial_path_;
  CacheHeader header_;
  std::unique_ptr<std::FILE, Close> file_;
  int64_t next_layer_ = 0;
};

}  // namespace anchorage::kv
