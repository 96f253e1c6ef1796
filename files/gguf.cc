#include "files/gguf.h"

#include <bit>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "files/gguf_cursor.h"

// The parser walks the file once with a cursor that never reads past the end. Counts are bounded by
// the bytes left divided by the least that one item takes, before anything is allocated for them.

namespace anchorage::files {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kVersion = 3;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMinAlignment = 8;
constexpr uint32_t kMaxAlignment = 1 << 20;
constexpr std::string_view kAlignmentKey = "general.alignment";

// The least a metadata entry takes: key length and one character, value type, one byte.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
// The least a tensor info takes: name length and one character, n_dims, one dim, type, offset.
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

struct Header {
  uint64_t num_tensors;
  uint64_t num_entries;
};

absl::StatusOr<Header> ReadHeader(GgufCursor& cursor) {
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

}  // namespace

absl::Status GgufFile::ReadAlignment() {
  const MetadataEntry* const entry = metadata_.Find(kAlignmentKey);
  alignment_ = kDefaultAlignment;
  if (entry == nullptr) return absl::OkStatus();
  if (entry->type != GgufValueType::kUint32) return WrongType(*entry, "u32");
  alignment_ = Load<uint32_t>(entry->bytes.data());
  if (!std::has_single_bit(alignment_) || alignment_ < kMinAlignment ||
      alignment_ > kMaxAlignment) {
    return Invalid("key %s is %d; a power of two from %d to %d is needed", kAlignmentKey,
                   alignment_, kMinAlignment, kMaxAlignment);
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes) {
  GgufFile file;
  file.bytes_ = bytes;
  GgufCursor cursor(bytes);
  ASSIGN_OR_RETURN(const Header header, ReadHeader(cursor));
  ASSIGN_OR_RETURN(file.metadata_, GgufMetadata::Read(cursor, bytes, header.num_entries));
  RETURN_IF_ERROR(file.ReadAlignment());
  ASSIGN_OR_RETURN(file.tensors_, ReadTensors(cursor, bytes, header.num_tensors, file.alignment_));
  for (size_t i = 0; i < file.tensors_.size(); ++i) {
    file.tensor_index_.emplace(file.tensors_[i].name, i);
  }
  return file;
}

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::Open(path));
  absl::StatusOr<GgufFile> file = Parse(mapping.bytes());
  if (!file.ok()) return Annotate(file.status(), path);
  file->mapping_ = std::move(mapping);
  return file;
}

const TensorView* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(absl::string_view(name.data(), name.size()));
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace anchorage::files
