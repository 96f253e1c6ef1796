// Reader of GGUF version 3 files, little-endian: metadata and views of tensors, nothing computed.
//
// A file is: magic "GGUF", version u32, tensor count u64, metadata count u64; the metadata (key,
// type, value); the tensor infos (name, dims, type, offset); padding to `general.alignment`; the
// tensors' bytes. The file is untrusted: every count, length and offset is checked against the
// bytes that are there before it is used, and what is allocated stays in proportion to the file's
// size.
//
// Thread-safe once opened. Views and spans point into the file and live as long as the GgufFile (or
// the one it was moved to), or as the bytes given to Parse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "files/gguf_metadata.h"
#include "files/gguf_tensors.h"
#include "files/mapped_file.h"

namespace anchorage::files {

class GgufFile {
 public:
  // Maps and parses `path`. NotFound: no such file. InvalidArgument: the file is not a well-formed
  // GGUF v3 file; the message says where and why.
  static absl::StatusOr<GgufFile> Open(const std::string& path);

  // The same on bytes in memory, which must outlive the result and begin 8-byte aligned.
  static absl::StatusOr<GgufFile> Parse(std::span<const std::byte> bytes);

  // Metadata by key. NotFound: no such key. InvalidArgument: the value has another type, or an
  // integer does not fit; any stored integer width is accepted. Floats accept f32 and f64.
  absl::StatusOr<uint32_t> GetU32(std::string_view key) const { return metadata_.GetU32(key); }
  absl::StatusOr<int64_t> GetI64(std::string_view key) const { return metadata_.GetI64(key); }
  absl::StatusOr<float> GetF32(std::string_view key) const { return metadata_.GetF32(key); }
  absl::StatusOr<bool> GetBool(std::string_view key) const { return metadata_.GetBool(key); }
  absl::StatusOr<std::string_view> GetString(std::string_view key) const {
    return metadata_.GetString(key);
  }
  absl::StatusOr<std::vector<std::string_view>> GetStringArray(std::string_view key) const {
    return metadata_.GetStringArray(key);
  }
  absl::StatusOr<std::vector<float>> GetF32Array(std::string_view key) const {
    return metadata_.GetF32Array(key);
  }
  absl::StatusOr<std::vector<int32_t>> GetI32Array(std::string_view key) const {
    return metadata_.GetI32Array(key);
  }

  bool HasKey(std::string_view key) const { return metadata_.Find(key) != nullptr; }

  // In file order.
  std::span<const MetadataEntry> metadata() const { return metadata_.entries(); }
  std::span<const TensorView> tensors() const { return tensors_; }

  // nullptr when there is none of that name.
  const TensorView* FindTensor(std::string_view name) const;

  // The whole file.
  std::span<const std::byte> bytes() const { return bytes_; }
  uint32_t alignment() const { return alignment_; }

 private:
  GgufFile() = default;
  absl::Status ReadAlignment();

  std::optional<MappedFile> mapping_;  // none when the bytes belong to the caller of Parse
  std::span<const std::byte> bytes_;
  uint32_t alignment_ = 0;
  GgufMetadata metadata_;
  std::vector<TensorView> tensors_;
  absl::flat_hash_map<absl::string_view, size_t> tensor_index_;  // by the names in `tensors_`
};

}  // namespace anchorage::files
