#include "bench/region_coder.h"

#include <algorithm>

#include "common/status.h"

namespace anchorage::bench {
namespace {

constexpr int kLevel = 1;

}  // namespace

RegionCoder::RegionCoder() : compress_(ZSTD_createCCtx()), decompress_(ZSTD_createDCtx()) {}

absl::Status RegionCoder::Code(std::span<const std::byte> region, std::span<const Part> parts,
                               CodedParts& coded) {
  if (compress_ == nullptr) return Exhausted("no memory for zstd");
  size_t bound = 0;
  for (const Part& part : parts) bound += ZSTD_compressBound(static_cast<size_t>(part.count));
  if (coded.bytes.size() < bound) coded.bytes.resize(bound);
  coded.frames.clear();
  size_t end = 0;
  for (const Part& part : parts) {
    const size_t count = static_cast<size_t>(part.count);
    const std::byte* source = region.data() + part.offset;
    if (part.stride != 1) {
      scratch_.resize(std::max(scratch_.size(), count));
      for (size_t i = 0; i < count; ++i) scratch_[i] = source[i * static_cast<size_t>(part.stride)];
      source = scratch_.data();
    }
    const size_t size = ZSTD_compressCCtx(compress_.get(), coded.bytes.data() + end,
                                          coded.bytes.size() - end, source, count, kLevel);
    if (ZSTD_isError(size)) return Internal("zstd: %s", ZSTD_getErrorName(size));
    coded.frames.push_back(size);
    end += size;
  }
  return absl::OkStatus();
}

absl::Status RegionCoder::Decode(const CodedParts& coded, std::span<const Part> parts,
                                 std::span<std::byte> region) {
  if (decompress_ == nullptr) return Exhausted("no memory for zstd");
  const std::byte* frame = coded.bytes.data();
  for (size_t p = 0; p < parts.size(); ++p) {
    const size_t count = static_cast<size_t>(parts[p].count);
    std::byte* target = region.data() + parts[p].offset;
    if (parts[p].stride != 1) scratch_.resize(std::max(scratch_.size(), count));
    const size_t size =
        ZSTD_decompressDCtx(decompress_.get(), parts[p].stride == 1 ? target : scratch_.data(),
                            count, frame, coded.frames[p]);
    if (ZSTD_isError(size)) return Internal("zstd: %s", ZSTD_getErrorName(size));
    if (size != count) return DataLoss("a part of %d bytes came back as %d", count, size);
    if (parts[p].stride != 1) {
      for (size_t i = 0; i < count; ++i) {
        target[i * static_cast<size_t>(parts[p].stride)] = scratch_[i];
      }
    }
    frame += coded.frames[p];
  }
  return absl::OkStatus();
}

}  // namespace anchorage::bench
