// Parts of a layer's region through zstd at level 1, as they might travel.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace anchorage::bench {

// `count` bytes of a region, each `stride` after the one before: a tensor (stride 1), or one byte
// of each of its elements.
struct Part {
  int64_t offset = 0;
  int64_t count = 0;
  int64_t stride = 1;
};

// One frame for each part, one after the other.
struct CodedParts {
  std::vector<std::byte> bytes;
  std::vector<size_t> frames;  // bytes of each
};

// One thread at a time; keeps its contexts and scratch. ResourceExhausted: no memory. Internal:
// zstd refuses.
class RegionCoder {
 public:
  RegionCoder();

  // Overwrites `coded`, which grows but never shrinks its allocation.
  absl::Status Code(std::span<const std::byte> region, std::span<const Part> parts,
                    CodedParts& coded);
  // Writes the parts back to where they were. DataLoss: a frame is not as long as its part.
  absl::Status Decode(const CodedParts& coded, std::span<const Part> parts,
                      std::span<std::byte> region);

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> compress_;
  std::unique_ptr<ZSTD_DCtx, Free> decompress_;
  std::vector<std::byte> scratch_;
};

}  // namespace anchorage::bench
