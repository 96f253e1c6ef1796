#include "files/gguf_metadata.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "files/gguf_cursor.h"

namespace anchorage::files {
namespace {

// ----------------------------------------------------------------------------------------- parsing

absl::StatusOr<GgufValueType> ReadValueType(GgufCursor& cursor, std::string_view key) {
  const uint64_t at = cursor.offset();
  ASSIGN_OR_RETURN(const uint32_t id, cursor.Read<uint32_t>("a value type"));
  const std::optional<GgufValueType> type = FindValueType(id);
  if (!type) return Invalid("offset %d: key %s has unknown value type %d", at, key, id);
  return *type;
}

// Moves the cursor over `count` values, checking what the format demands of each.
absl::Status SkipValues(GgufCursor& cursor, std::string_view key, GgufValueType type,
                        uint64_t count) {
  const uint64_t item_bytes = type == GgufValueType::kString ? 8 : FixedSize(type);
  if (count > cursor.remaining() / item_bytes) {
    return Invalid("offset %d: key %s announces %d values of type %s, but only %d bytes are left",
                   cursor.offset(), key, count, GgufValueTypeName(type), cursor.remaining());
  }
  if (type == GgufValueType::kString) {
    for (uint64_t i = 0; i < count; ++i) RETURN_IF_ERROR(cursor.ReadString(key).status());
    return absl::OkStatus();
  }
  const uint64_t at = cursor.offset();
  ASSIGN_OR_RETURN(const auto bytes, cursor.Take(count * item_bytes, key));
  if (type == GgufValueType::kBool) {
    const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) {
      return b != std::byte{0} && b != std::byte{1};
    });
    if (bad != bytes.end()) {
      return Invalid("offset %d: key %s: a bool is 0 or 1, not %d", at + (bad - bytes.begin()), key,
                     std::to_integer<int>(*bad));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<MetadataEntry> ReadEntry(GgufCursor& cursor, std::span<const std::byte> file) {
  MetadataEntry entry;
  ASSIGN_OR_RETURN(entry.key, cursor.ReadName("a metadata key"));
  ASSIGN_OR_RETURN(entry.type, ReadValueType(cursor, entry.key));
  entry.element_type = entry.type;
  entry.count = 1;
  if (entry.type == GgufValueType::kArray) {
    const uint64_t at = cursor.offset();
    ASSIGN_OR_RETURN(entry.element_type, ReadValueType(cursor, entry.key));
    if (entry.element_type == GgufValueType::kArray) {
      return Invalid("offset %d: key %s is an array of arrays, which is not supported", at,
                     entry.key);
    }
    ASSIGN_OR_RETURN(entry.count, cursor.Read<uint64_t>(entry.key));
  }
  const uint64_t begin = cursor.offset();
  RETURN_IF_ERROR(SkipValues(cursor, entry.key, entry.element_type, entry.count));
  entry.bytes = file.subspan(begin, cursor.offset() - begin);
  return entry;
}

// ---------------------------------------------------------------------------------------- decoding

bool IsBool(GgufValueType type) { return type == GgufValueType::kBool; }
bool IsString(GgufValueType type) { return type == GgufValueType::kString; }

std::string TypeOf(const MetadataEntry& entry) {
  if (entry.type != GgufValueType::kArray) return std::string(GgufValueTypeName(entry.type));
  return absl::StrFormat("array of %s", GgufValueTypeName(entry.element_type));
}

absl::StatusOr<int64_t> DecodeInteger(const MetadataEntry& entry, size_t index, int64_t min,
                                      int64_t max) {
  const std::byte* const at = entry.bytes.data() + index * FixedSize(entry.element_type);
  const WideInteger value = LoadInteger(entry.element_type, at);
  const bool too_big_for_int64 =
      !value.negative && value.bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const int64_t number = static_cast<int64_t>(value.bits);
  if (too_big_for_int64 || number < min || number > max) {
    return Invalid("key %s: an integer is outside [%d, %d]", entry.key, min, max);
  }
  return number;
}

double DecodeFloat(const MetadataEntry& entry, size_t index) {
  const std::byte* const at = entry.bytes.data() + index * FixedSize(entry.element_type);
  return entry.element_type == GgufValueType::kFloat32 ? Load<float>(at) : Load<double>(at);
}

// Calls visit(string) for the first `count` strings of an entry; their lengths were checked when
// the file was parsed.
template <typename Visit>
void VisitStrings(const MetadataEntry& entry, uint64_t count, Visit visit) {
  const std::byte* at = entry.bytes.data();
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t size = Load<uint64_t>(at);
    visit(std::string_view(reinterpret_cast<const char*>(at + 8), size));
    at += 8 + size;
  }
}

std::string FormatElement(const MetadataEntry& entry, size_t index) {
  const std::byte* const at = entry.bytes.data() + index * FixedSize(entry.element_type);
  if (IsFloat(entry.element_type)) return absl::StrFormat("%g", DecodeFloat(entry, index));
  if (entry.element_type == GgufValueType::kBool) {
    return Load<uint8_t>(at) != 0 ? "true" : "false";
  }
  const WideInteger value = LoadInteger(entry.element_type, at);
  return value.negative ? absl::StrFormat("%d", static_cast<int64_t>(value.bits))
                        : absl::StrFormat("%d", value.bits);
}

}  // namespace

std::string MetadataEntry::ToString(size_t max_elements, size_t max_chars) const {
  std::vector<std::string> shown;
  const uint64_t num_shown =
      type == GgufValueType::kArray ? std::min<uint64_t>(count, max_elements) : 1;
  if (element_type == GgufValueType::kString) {
    VisitStrings(*this, num_shown, [&](std::string_view value) {
      const std::string_view head = value.substr(0, max_chars);
      shown.push_back(absl::StrFormat(
          "\"%s%s\"", absl::Utf8SafeCHexEscape(absl::string_view(head.data(), head.size())),
          value.size() > max_chars ? "..." : ""));
    });
  } else {
    for (uint64_t i = 0; i < num_shown; ++i) shown.push_back(FormatElement(*this, i));
  }
  if (type != GgufValueType::kArray) return shown[0];
  std::string text = "[";
  for (const std::string& value : shown) text += value + ", ";
  if (num_shown == count && count > 0) text.resize(text.size() - 2);
  if (num_shown < count) text += "...";
  return text + absl::StrFormat("] (%d)", count);
}

absl::Status WrongType(const MetadataEntry& entry, std::string_view wanted) {
  return Invalid("key %s is of type %s, not %s", entry.key, TypeOf(entry), wanted);
}

absl::StatusOr<GgufMetadata> GgufMetadata::Read(GgufCursor& cursor, std::span<const std::byte> file,
                                                uint64_t num_entries) {
  GgufMetadata metadata;
  // No reserve: the count is only a claim until the entries have been seen.
  for (uint64_t i = 0; i < num_entries; ++i) {
    const uint64_t at = cursor.offset();
    ASSIGN_OR_RETURN(const MetadataEntry entry, ReadEntry(cursor, file));
    const absl::string_view key(entry.key.data(), entry.key.size());
    if (!metadata.index_.emplace(key, metadata.entries_.size()).second) {
      return Invalid("offset %d: key %s appears twice", at, entry.key);
    }
    metadata.entries_.push_back(entry);
  }
  return metadata;
}

const MetadataEntry* GgufMetadata::Find(std::string_view key) const {
  const auto found = index_.find(absl::string_view(key.data(), key.size()));
  return found == index_.end() ? nullptr : &entries_[found->second];
}

absl::StatusOr<const MetadataEntry*> GgufMetadata::Get(std::string_view key) const {
  const MetadataEntry* const entry = Find(key);
  if (entry == nullptr) return NotFound("the file has no key %s", key);
  return entry;
}

absl::StatusOr<const MetadataEntry*> GgufMetadata::GetScalar(std::string_view key,
                                                             bool (*accepts)(GgufValueType),
                                                             std::string_view wanted) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, Get(key));
  if (!accepts(entry->type)) return WrongType(*entry, wanted);
  return entry;
}

absl::StatusOr<const MetadataEntry*> GgufMetadata::GetArray(std::string_view key,
                                                            bool (*accepts)(GgufValueType),
                                                            std::string_view wanted) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, Get(key));
  if (entry->type != GgufValueType::kArray || !accepts(entry->element_type)) {
    return WrongType(*entry, wanted);
  }
  return entry;
}
absl::StatusOr<uint32_t> GgufMetadata::GetU32(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, GetScalar(key, IsInteger, "an integer"));
  ASSIGN_OR_RETURN(const int64_t value,
                   DecodeInteger(*entry, 0, 0, std::numeric_limits<uint32_t>::max()));
  return static_cast<uint32_t>(value);
}

absl::StatusOr<int64_t> GgufMetadata::GetI64(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, GetScalar(key, IsInteger, "an integer"));
  return DecodeInteger(*entry, 0, std::numeric_limits<int64_t>::min(),
                       std::numeric_limits<int64_t>::max());
}

absl::StatusOr<float> GgufMetadata::GetF32(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, GetScalar(key, IsFloat, "a float"));
  return static_cast<float>(DecodeFloat(*entry, 0));
}

absl::StatusOr<bool> GgufMetadata::GetBool(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, GetScalar(key, IsBool, "bool"));
  return Load<uint8_t>(entry->bytes.data()) != 0;
}

absl::StatusOr<std::string_view> GgufMetadata::GetString(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, GetScalar(key, IsString, "a string"));
  std::string_view value;
  VisitStrings(*entry, 1, [&](std::string_view stored) { value = stored; });
  return value;
}

absl::StatusOr<std::vector<std::string_view>> GgufMetadata::GetStringArray(
    std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry,
                   GetArray(key, IsString, "an array of strings"));
  std::vector<std::string_view> values;
  values.reserve(entry->count);
  VisitStrings(*entry, entry->count, [&](std::string_view value) { values.push_back(value); });
  return values;
}

absl::StatusOr<std::vector<float>> GgufMetadata::GetF32Array(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, GetArray(key, IsFloat, "an array of floats"));
  std::vector<float> values(entry->count);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(DecodeFloat(*entry, i));
  return values;
}

absl::StatusOr<std::vector<int32_t>> GgufMetadata::GetI32Array(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry,
                   GetArray(key, IsInteger, "an array of integers"));
  std::vector<int32_t> values(entry->count);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t value,
                     DecodeInteger(*entry, i, std::numeric_limits<int32_t>::min(),
                                   std::numeric_limits<int32_t>::max()));
    values[i] = static_cast<int32_t>(value);
  }
  return values;
}

}  // namespace anchorage::files
