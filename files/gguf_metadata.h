// The metadata of a GGUF file: keys with values that stay where they are in the file and are
// decoded when asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "files/gguf_value.h"

namespace anchorage::files {

class GgufCursor;

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

// Views point into the file.
class GgufMetadata {
 public:
  // Reads `num_entries` entries of `file` at the cursor. InvalidArgument says where and why not.
  static absl::StatusOr<GgufMetadata> Read(GgufCursor& cursor, std::span<const std::byte> file,
                                           uint64_t num_entries);

  // NotFound: no such key. InvalidArgument: the value has another type, or an integer does not fit;
  // any stored integer width is accepted. Floats accept f32 and f64.
  absl::StatusOr<uint32_t> GetU32(std::string_view key) const;
  absl::StatusOr<int64_t> GetI64(std::string_view key) const;
  absl::StatusOr<float> GetF32(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<std::vector<std::string_view>> GetStringArray(std::string_view key) const;
  absl::StatusOr<std::vector<float>> GetF32Array(std::string_view key) const;
  absl::StatusOr<std::vector<int32_t>> GetI32Array(std::string_view key) const;

  // nullptr: no such key.
  const MetadataEntry* Find(std::string_view key) const;

  // In file order.
  std::span<const MetadataEntry> entries() const { return entries_; }

 private:
  absl::StatusOr<const MetadataEntry*> Get(std::string_view key) const;
  absl::StatusOr<const MetadataEntry*> GetScalar(std::string_view key,
                                                 bool (*accepts)(GgufValueType),
                                                 std::string_view wanted) const;
  absl::StatusOr<const MetadataEntry*> GetArray(std::string_view key,
                                                bool (*accepts)(GgufValueType),
                                                std::string_view wanted) const;

  std::vector<MetadataEntry> entries_;
  absl::flat_hash_map<absl::string_view, size_t> index_;  // keys as in `entries_`
};

// InvalidArgument: the entry's type is not the one that was wanted.
absl::Status WrongType(const MetadataEntry& entry, std::string_view wanted);

}  // namespace anchorage::files
