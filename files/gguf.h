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
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "files/tensor_type.h"

namespace anchorage::files {

enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "u32", "string", "array"; `type` must be an enumerator.
std::string_view GgufValueTypeName(GgufValueType type);

struct MetadataEntry {
  std::string_view key;
  GgufValueType type;
  GgufValueType element_type;        // of an array; otherwise equal to `type`
  uint64_t count;                    // elements of an array; otherwise 1
  std::span<const std::byte> bytes;  // the values as stored, after the array's header

  // For people: numbers, quoted strings with control characters escaped, at most `max_elements` of
  // an array and `max_chars` of a string.
  std::string ToString(size_t max_elements = 8, size_t max_chars = 80) const;
};

struct TensorView {
  std::string name;
  TensorType type;
  std::vector<int64_t> dims;        // 1 to 4, each >= 1; dims[0] is contiguous in memory
  std::span<const std::byte> data;  // exactly the blocks of the elements; aligned to the alignment
  uint64_t file_offset;             // of data[0] from the start of the file

  int64_t num_elements() const;
};

class GgufFile {
 public:
  // Maps and parses `path`. NotFound: no such file. InvalidArgument: the file is not a well-formed
  // GGUF v3 file; the message says where and why.
  static absl::StatusOr<GgufFile> Open(const std::string& path);

  // The same on bytes in memory, which must outlive the result and begin 8-byte aligned.
  static absl::StatusOr<GgufFile> Parse(std::span<const std::byte> bytes);

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;
  ~GgufFile();

  // Metadata by key. NotFound: no such key. InvalidArgument: the value has another type, or an
  // integer does not fit; any stored integer width is accepted. Floats accept f32 and f64.
  absl::StatusOr<uint32_t> GetU32(std::string_view key) const;
  absl::StatusOr<int64_t> GetI64(std::string_view key) const;
  absl::StatusOr<float> GetF32(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<std::vector<std::string_view>> GetStringArray(std::string_view key) const;
  absl::StatusOr<std::vector<float>> GetF32Array(std::string_view key) const;
  absl::StatusOr<std::vector<int32_t>> GetI32Array(std::string_view key) const;

  bool HasKey(std::string_view key) const;

  // In file order.
  std::span<const MetadataEntry> metadata() const;
  std::span<const TensorView> tensors() const;

  // nullptr when there is none of that name.
  const TensorView* FindTensor(std::string_view name) const;

  // The whole file.
  std::span<const std::byte> bytes() const;
  uint32_t alignment() const;

 private:
  struct Contents;
  explicit GgufFile(std::unique_ptr<Contents> contents);

  std::unique_ptr<Contents> contents_;
};

}  // namespace anchorage::files
