#include "files/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "files/mapped_file.h"

// The parser walks the file once with a Cursor that never reads past the end. Values of metadata
// are not copied: an entry remembers where its bytes are and the getters decode them on demand.
// Counts are bounded by the bytes left divided by the least that one item takes, before anything is
// allocated for them.

namespace anchorage::files {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian in place");

namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kVersion = 3;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMinAlignment = 8;
constexpr uint32_t kMaxAlignment = 1 << 20;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxNameBytes = 65535;
constexpr std::string_view kAlignmentKey = "general.alignment";

// The least a metadata entry takes: key length and one character, value type, one byte.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
// The least a tensor info takes: name length and one character, n_dims, one dim, type, offset.
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

// Bytes of one value; 0 for the types without a fixed size.
uint64_t FixedSize(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    case GgufValueType::kString:
    case GgufValueType::kArray:
      return 0;
  }
  return 0;
}

bool IsValueType(uint32_t id) { return id <= static_cast<uint32_t>(GgufValueType::kFloat64); }

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Names end up in error messages and terminals, so control characters are refused.
bool IsPrintableName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](unsigned char c) { return c >= 0x20 && c != 0x7F; });
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 100;
  const std::string_view shown = text.substr(0, kShown);
  return absl::StrFormat("'%s'%s", absl::CHexEscape(absl::string_view(shown.data(), shown.size())),
                         text.size() > kShown ? "..." : "");
}

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  absl::StatusOr<std::span<const std::byte>> Take(uint64_t size, std::string_view what) {
    if (size > remaining()) {
      return Invalid("offset %d: %s needs %d bytes, but only %d are left", offset_, what, size,
                     remaining());
    }
    const auto taken = bytes_.subspan(offset_, size);
    offset_ += size;
    return taken;
  }

  template <typename T>
  absl::StatusOr<T> Read(std::string_view what) {
    ASSIGN_OR_RETURN(const auto bytes, Take(sizeof(T), what));
    return Load<T>(bytes.data());
  }

  absl::StatusOr<std::string_view> ReadString(std::string_view what) {
    ASSIGN_OR_RETURN(const uint64_t size, Read<uint64_t>(what));
    ASSIGN_OR_RETURN(const auto bytes, Take(size, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  absl::StatusOr<std::string_view> ReadName(std::string_view what) {
    const uint64_t at = offset_;
    ASSIGN_OR_RETURN(const std::string_view name, ReadString(what));
    if (name.size() > kMaxNameBytes || !IsPrintableName(name)) {
      return Invalid("offset %d: %s %s is empty, too long or has control characters", at, what,
                     Quoted(name));
    }
    return name;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
};

struct Header {
  uint64_t num_tensors;
  uint64_t num_entries;
};

absl::StatusOr<Header> ReadHeader(Cursor& cursor) {
  ASSIGN_OR_RETURN(const uint32_t magic, cursor.Read<uint32_t>("the magic"));
  if (magic != kMagic) return Invalid("offset 0: magic is 0x%08x, not 'GGUF'", magic);
  ASSIGN_OR_RETURN(const uint32_t version, cursor.Read<uint32_t>("the version"));
  if (version == __builtin_bswap32(kVersion)) {
    return Invalid("offset 4: the file is big-endian; only little-endian GGUF is read");
  }
  if (version != kVersion) {
    return Invalid("offset 4: GGUF version %d; only version %d is read", version, kVersion);
  }
  Header header;
  ASSIGN_OR_RETURN(header.num_tensors, cursor.Read<uint64_t>("the tensor count"));
  ASSIGN_OR_RETURN(header.num_entries, cursor.Read<uint64_t>("the metadata count"));
  if (header.num_entries > cursor.remaining() / kMinEntryBytes) {
    return Invalid("offset 16: %d metadata entries cannot fit in the %d bytes left",
                   header.num_entries, cursor.remaining());
  }
  if (header.num_tensors > cursor.remaining() / kMinTensorInfoBytes) {
    return Invalid("offset 8: %d tensors cannot fit in the %d bytes left", header.num_tensors,
                   cursor.remaining());
  }
  return header;
}

absl::StatusOr<GgufValueType> ReadValueType(Cursor& cursor, std::string_view key) {
  const uint64_t at = cursor.offset();
  ASSIGN_OR_RETURN(const uint32_t id, cursor.Read<uint32_t>("a value type"));
  if (!IsValueType(id)) return Invalid("offset %d: key %s has unknown value type %d", at, key, id);
  return static_cast<GgufValueType>(id);
}

// Moves the cursor over `count` values, checking what the format demands of each.
absl::Status SkipValues(Cursor& cursor, std::string_view key, GgufValueType type, uint64_t count) {
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

absl::StatusOr<MetadataEntry> ReadEntry(Cursor& cursor, std::span<const std::byte> file) {
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

absl::StatusOr<int64_t> CheckedElements(const TensorView& tensor) {
  int64_t elements = 1;
  for (const int64_t dim : tensor.dims) {
    if (__builtin_mul_overflow(elements, dim, &elements)) {
      return Invalid("tensor %s: the product of its dims overflows", tensor.name);
    }
  }
  return elements;
}

absl::StatusOr<uint64_t> TensorBytes(const TensorView& tensor, const TensorTypeInfo& info) {
  ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(tensor));
  if (tensor.dims[0] % info.block_elements != 0) {
    return Invalid("tensor %s: rows of %d elements are not whole blocks of %d (%s)", tensor.name,
                   tensor.dims[0], info.block_elements, info.name);
  }
  int64_t bytes;
  if (__builtin_mul_overflow(elements / info.block_elements, info.block_bytes, &bytes)) {
    return Invalid("tensor %s: its size in bytes overflows", tensor.name);
  }
  return static_cast<uint64_t>(bytes);
}

// A tensor info as stored; `offset` counts from the start of the tensors' bytes.
struct TensorInfo {
  TensorView view;
  uint64_t offset;
  uint64_t size;
};

absl::StatusOr<TensorInfo> ReadTensorInfo(Cursor& cursor, uint32_t alignment) {
  TensorInfo info;
  ASSIGN_OR_RETURN(const std::string_view name, cursor.ReadName("a tensor name"));
  info.view.name = std::string(name);
  const uint64_t dims_at = cursor.offset();
  ASSIGN_OR_RETURN(const uint32_t num_dims, cursor.Read<uint32_t>("the number of dims"));
  if (num_dims == 0 || num_dims > kMaxDims) {
    return Invalid("offset %d: tensor %s has %d dims; 1 to %d are allowed", dims_at, name, num_dims,
                   kMaxDims);
  }
  for (uint32_t d = 0; d < num_dims; ++d) {
    ASSIGN_OR_RETURN(const int64_t dim, cursor.Read<int64_t>("a dim"));
    if (dim <= 0) return Invalid("offset %d: tensor %s: dim %d is %d", dims_at, name, d, dim);
    info.view.dims.push_back(dim);
  }
  const uint64_t type_at = cursor.offset();
  ASSIGN_OR_RETURN(const uint32_t type_id, cursor.Read<uint32_t>("a tensor type"));
  const std::optional<TensorTypeInfo> type = FindTensorType(type_id);
  if (!type) return Invalid("offset %d: tensor %s has unknown type %d", type_at, name, type_id);
  info.view.type = type->type;
  ASSIGN_OR_RETURN(info.offset, cursor.Read<uint64_t>("a tensor offset"));
  if (info.offset % alignment != 0) {
    return Invalid("tensor %s: offset %d is not a multiple of the alignment %d", name, info.offset,
                   alignment);
  }
  ASSIGN_OR_RETURN(info.size, TensorBytes(info.view, *type));
  return info;
}

// Gives each view its bytes. `data_begin` is where the tensors' bytes start in the file.
absl::Status PlaceTensors(std::span<TensorInfo> infos, std::span<const std::byte> file,
                          uint64_t data_begin) {
  const uint64_t data_size = file.size() - std::min<uint64_t>(data_begin, file.size());
  for (TensorInfo& info : infos) {
    if (info.offset > data_size || info.size > data_size - info.offset) {
      return Invalid("tensor %s: %d bytes at offset %d reach past the end of the file (%d bytes)",
                     info.view.name, info.size, data_begin + info.offset, file.size());
    }
    info.view.file_offset = data_begin + info.offset;
    info.view.data = file.subspan(info.view.file_offset, info.size);
  }
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(infos.size());
  for (const TensorInfo& info : infos) by_offset.push_back(&info);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    if (by_offset[i - 1]->offset + by_offset[i - 1]->size > by_offset[i]->offset) {
      return Invalid("tensors %s and %s overlap at offset %d", by_offset[i - 1]->view.name,
                     by_offset[i]->view.name, by_offset[i]->view.file_offset);
    }
  }
  return absl::OkStatus();
}

// An integer of any width as (negative, magnitude); nothing if the type is not an integer.
struct WideInteger {
  bool negative;
  uint64_t bits;  // two's complement
};

std::optional<WideInteger> LoadInteger(GgufValueType type, const std::byte* from) {
  const auto from_signed = [](int64_t value) {
    return WideInteger{value < 0, static_cast<uint64_t>(value)};
  };
  switch (type) {
    case GgufValueType::kUint8:
      return WideInteger{false, Load<uint8_t>(from)};
    case GgufValueType::kUint16:
      return WideInteger{false, Load<uint16_t>(from)};
    case GgufValueType::kUint32:
      return WideInteger{false, Load<uint32_t>(from)};
    case GgufValueType::kUint64:
      return WideInteger{false, Load<uint64_t>(from)};
    case GgufValueType::kInt8:
      return from_signed(Load<int8_t>(from));
    case GgufValueType::kInt16:
      return from_signed(Load<int16_t>(from));
    case GgufValueType::kInt32:
      return from_signed(Load<int32_t>(from));
    case GgufValueType::kInt64:
      return from_signed(Load<int64_t>(from));
    default:
      return std::nullopt;
  }
}

std::string TypeOf(const MetadataEntry& entry) {
  if (entry.type != GgufValueType::kArray) return std::string(GgufValueTypeName(entry.type));
  return absl::StrFormat("array of %s", GgufValueTypeName(entry.element_type));
}

absl::Status WrongType(const MetadataEntry& entry, std::string_view wanted) {
  return Invalid("key %s is of type %s, not %s", entry.key, TypeOf(entry), wanted);
}

absl::StatusOr<int64_t> DecodeInteger(const MetadataEntry& entry, size_t index, int64_t min,
                                      int64_t max) {
  const std::byte* const at = entry.bytes.data() + index * FixedSize(entry.element_type);
  const WideInteger value = *LoadInteger(entry.element_type, at);
  const bool too_big_for_int64 =
      !value.negative && value.bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const int64_t number = static_cast<int64_t>(value.bits);
  if (too_big_for_int64 || number < min || number > max) {
    return Invalid("key %s: an integer is outside [%d, %d]", entry.key, min, max);
  }
  return number;
}

bool IsInteger(GgufValueType type) {
  switch (type) {
    case GgufValueType::kFloat32:
    case GgufValueType::kFloat64:
    case GgufValueType::kBool:
    case GgufValueType::kString:
    case GgufValueType::kArray:
      return false;
    default:
      return true;
  }
}

bool IsFloat(GgufValueType type) {
  return type == GgufValueType::kFloat32 || type == GgufValueType::kFloat64;
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
  const WideInteger value = *LoadInteger(entry.element_type, at);
  return value.negative ? absl::StrFormat("%d", static_cast<int64_t>(value.bits))
                        : absl::StrFormat("%d", value.bits);
}

}  // namespace

std::string_view GgufValueTypeName(GgufValueType type) {
  static constexpr std::string_view kNames[] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                "i32", "f32", "bool", "string", "array",
                                                "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

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

int64_t TensorView::num_elements() const {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

struct GgufFile::Contents {
  std::optional<MappedFile> mapping;  // none when the bytes belong to the caller of Parse
  std::span<const std::byte> bytes;
  uint32_t alignment = kDefaultAlignment;
  std::vector<MetadataEntry> entries;
  std::vector<TensorView> tensors;
  absl::flat_hash_map<absl::string_view, size_t> entry_index;
  absl::flat_hash_map<absl::string_view, size_t> tensor_index;  // keys point into `tensors`

  absl::Status ReadEntries(Cursor& cursor, uint64_t num_entries);
  absl::Status ReadAlignment();
  absl::Status ReadTensors(Cursor& cursor, uint64_t num_tensors);

  const MetadataEntry* Find(std::string_view key) const {
    const auto found = entry_index.find(absl::string_view(key.data(), key.size()));
    return found == entry_index.end() ? nullptr : &entries[found->second];
  }

  absl::StatusOr<const MetadataEntry*> Get(std::string_view key) const {
    const MetadataEntry* const entry = Find(key);
    if (entry == nullptr) return NotFound("the file has no key %s", key);
    return entry;
  }

  absl::StatusOr<const MetadataEntry*> GetScalar(std::string_view key,
                                                 bool (*accepts)(GgufValueType),
                                                 std::string_view wanted) const {
    ASSIGN_OR_RETURN(const MetadataEntry* const entry, Get(key));
    if (!accepts(entry->type)) return WrongType(*entry, wanted);
    return entry;
  }

  absl::StatusOr<const MetadataEntry*> GetArray(std::string_view key,
                                                bool (*accepts)(GgufValueType),
                                                std::string_view wanted) const {
    ASSIGN_OR_RETURN(const MetadataEntry* const entry, Get(key));
    if (entry->type != GgufValueType::kArray || !accepts(entry->element_type)) {
      return WrongType(*entry, wanted);
    }
    return entry;
  }
};

absl::Status GgufFile::Contents::ReadEntries(Cursor& cursor, uint64_t num_entries) {
  // No reserve: the count is only a claim until the entries have been seen.
  for (uint64_t i = 0; i < num_entries; ++i) {
    const uint64_t at = cursor.offset();
    ASSIGN_OR_RETURN(const MetadataEntry entry, ReadEntry(cursor, bytes));
    const absl::string_view key(entry.key.data(), entry.key.size());
    if (!entry_index.emplace(key, entries.size()).second) {
      return Invalid("offset %d: key %s appears twice", at, entry.key);
    }
    entries.push_back(entry);
  }
  return absl::OkStatus();
}

absl::Status GgufFile::Contents::ReadAlignment() {
  const MetadataEntry* const entry = Find(kAlignmentKey);
  if (entry == nullptr) return absl::OkStatus();
  if (entry->type != GgufValueType::kUint32) return WrongType(*entry, "u32");
  alignment = Load<uint32_t>(entry->bytes.data());
  if (!std::has_single_bit(alignment) || alignment < kMinAlignment || alignment > kMaxAlignment) {
    return Invalid("key %s is %d; a power of two from %d to %d is needed", kAlignmentKey, alignment,
                   kMinAlignment, kMaxAlignment);
  }
  return absl::OkStatus();
}

absl::Status GgufFile::Contents::ReadTensors(Cursor& cursor, uint64_t num_tensors) {
  std::vector<TensorInfo> infos;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    ASSIGN_OR_RETURN(TensorInfo info, ReadTensorInfo(cursor, alignment));
    infos.push_back(std::move(info));
  }
  const uint64_t data_begin = (cursor.offset() + alignment - 1) / alignment * alignment;
  RETURN_IF_ERROR(PlaceTensors(infos, bytes, data_begin));
  tensors.reserve(infos.size());
  for (TensorInfo& info : infos) tensors.push_back(std::move(info.view));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensor_index.emplace(tensors[i].name, i).second) {
      return Invalid("tensor %s appears twice", tensors[i].name);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes) {
  auto contents = std::make_unique<Contents>();
  contents->bytes = bytes;
  Cursor cursor(bytes);
  ASSIGN_OR_RETURN(const Header header, ReadHeader(cursor));
  RETURN_IF_ERROR(contents->ReadEntries(cursor, header.num_entries));
  RETURN_IF_ERROR(contents->ReadAlignment());
  RETURN_IF_ERROR(contents->ReadTensors(cursor, header.num_tensors));
  return GgufFile(std::move(contents));
}

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::Open(path));
  absl::StatusOr<GgufFile> file = Parse(mapping.bytes());
  if (!file.ok()) return Annotate(file.status(), path);
  file->contents_->mapping = std::move(mapping);
  return file;
}

GgufFile::GgufFile(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

absl::StatusOr<uint32_t> GgufFile::GetU32(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry,
                   contents_->GetScalar(key, IsInteger, "an integer"));
  ASSIGN_OR_RETURN(const int64_t value,
                   DecodeInteger(*entry, 0, 0, std::numeric_limits<uint32_t>::max()));
  return static_cast<uint32_t>(value);
}

absl::StatusOr<int64_t> GgufFile::GetI64(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry,
                   contents_->GetScalar(key, IsInteger, "an integer"));
  return DecodeInteger(*entry, 0, std::numeric_limits<int64_t>::min(),
                       std::numeric_limits<int64_t>::max());
}

absl::StatusOr<float> GgufFile::GetF32(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, contents_->GetScalar(key, IsFloat, "a float"));
  return static_cast<float>(DecodeFloat(*entry, 0));
}

absl::StatusOr<bool> GgufFile::GetBool(std::string_view key) const {
  const auto is_bool = [](GgufValueType type) { return type == GgufValueType::kBool; };
  ASSIGN_OR_RETURN(const MetadataEntry* const entry, contents_->GetScalar(key, is_bool, "bool"));
  return Load<uint8_t>(entry->bytes.data()) != 0;
}

absl::StatusOr<std::string_view> GgufFile::GetString(std::string_view key) const {
  const auto is_string = [](GgufValueType type) { return type == GgufValueType::kString; };
  ASSIGN_OR_RETURN(const MetadataEntry* const entry,
                   contents_->GetScalar(key, is_string, "a string"));
  std::string_view value;
  VisitStrings(*entry, 1, [&](std::string_view stored) { value = stored; });
  return value;
}

absl::StatusOr<std::vector<std::string_view>> GgufFile::GetStringArray(std::string_view key) const {
  const auto is_string = [](GgufValueType type) { return type == GgufValueType::kString; };
  ASSIGN_OR_RETURN(const MetadataEntry* const entry,
                   contents_->GetArray(key, is_string, "an array of strings"));
  std::vector<std::string_view> values;
  values.reserve(entry->count);
  VisitStrings(*entry, entry->count, [&](std::string_view value) { values.push_back(value); });
  return values;
}

absl::StatusOr<std::vector<float>> GgufFile::GetF32Array(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry,
                   contents_->GetArray(key, IsFloat, "an array of floats"));
  std::vector<float> values(entry->count);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(DecodeFloat(*entry, i));
  return values;
}

absl::StatusOr<std::vector<int32_t>> GgufFile::GetI32Array(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetadataEntry* const entry,
                   contents_->GetArray(key, IsInteger, "an array of integers"));
  std::vector<int32_t> values(entry->count);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t value,
                     DecodeInteger(*entry, i, std::numeric_limits<int32_t>::min(),
                                   std::numeric_limits<int32_t>::max()));
    values[i] = static_cast<int32_t>(value);
  }
  return values;
}

bool GgufFile::HasKey(std::string_view key) const { return contents_->Find(key) != nullptr; }

std::span<const MetadataEntry> GgufFile::metadata() const { return contents_->entries; }

std::span<const TensorView> GgufFile::tensors() const { return contents_->tensors; }

const TensorView* GgufFile::FindTensor(std::string_view name) const {
  const auto found = contents_->tensor_index.find(absl::string_view(name.data(), name.size()));
  return found == contents_->tensor_index.end() ? nullptr : &contents_->tensors[found->second];
}

std::span<const std::byte> GgufFile::bytes() const { return contents_->bytes; }

uint32_t GgufFile::alignment() const { return contents_->alignment; }

}  // namespace anchorage::files
