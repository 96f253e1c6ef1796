// Private to files/: walks once over the bytes of a GGUF file and never past their end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/status_macros.h"

namespace anchorage::files {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian in place");

// A stored number, which need not be aligned.
template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Errors are InvalidArgument and say the offset and `what` was to be read there.
class GgufCursor {
 public:
  explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  absl::StatusOr<std::span<const std::byte>> Take(uint64_t size, std::string_view what);

  template <typename T>
  absl::StatusOr<T> Read(std::string_view what) {
    ASSIGN_OR_RETURN(const auto bytes, Take(sizeof(T), what));
    return Load<T>(bytes.data());
  }

  absl::StatusOr<std::string_view> ReadString(std::string_view what);

  // A string that is not empty, not endless and has no control characters.
  absl::StatusOr<std::string_view> ReadName(std::string_view what);

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
};

}  // namespace anchorage::files
