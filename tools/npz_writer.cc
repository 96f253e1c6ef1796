#include "tools/npz_writer.h"

#include <array>
#include <limits>
#include <utility>

#include "common/status.h"

namespace anchorage::tools {
namespace {

constexpr uint16_t kZipVersion = 20;
constexpr uint16_t kDosDate = (1 << 5) | 1;  // 1 January 1980: the same bytes on every run
constexpr size_t kNpyAlignment = 64;
constexpr size_t kNpyPreamble = 10;  // magic, version, length of the header

// CRC-32 of ISO 3309, as zip has it.
constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
    table[byte] = crc;
  }
  return table;
}

class Crc32 {
 public:
  void Add(std::span<const std::byte> bytes) {
    static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
    for (const std::byte byte : bytes) {
      state_ = kTable[(state_ ^ std::to_integer<uint32_t>(byte)) & 0xff] ^ (state_ >> 8);
    }
  }
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = ~0u;
};

template <typename T>
void Put(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

// "\x93NUMPY", version 1.0, then a Python dictionary padded with spaces to 64 bytes.
std::string NpyHeader(std::string_view dtype, std::span<const int64_t> shape) {
  std::string dictionary =
      "{'descr': '" + std::string(dtype) + "', 'fortran_order': False, " + "'shape': (";
  for (const int64_t size : shape) dictionary += std::to_string(size) + ",";
  dictionary += "), }";
  while ((kNpyPreamble + dictionary.size() + 1) % kNpyAlignment != 0) dictionary += ' ';
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  Put(header, static_cast<uint16_t>(dictionary.size()));
  return header + dictionary;
}

// The fields that the local header and the directory share.
void PutEntry(std::string& bytes, uint32_t crc, uint32_t size, const std::string& file_name) {
  Put(bytes, kZipVersion);  // needed to extract
  Put(bytes, uint16_t{0});  // flags
  Put(bytes, uint16_t{0});  // stored
  Put(bytes, uint16_t{0});  // time
  Put(bytes, kDosDate);
  Put(bytes, crc);
  Put(bytes, size);  // compressed
  Put(bytes, size);
  Put(bytes, static_cast<uint16_t>(file_name.size()));
  Put(bytes, uint16_t{0});  // extra field
}

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

absl::StatusOr<NpzWriter> NpzWriter::Create(const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out) return Unavailable("%s: cannot be opened for writing", path);
  return NpzWriter(path, std::move(out));
}

absl::Status NpzWriter::Add(std::string_view name, std::string_view dtype,
                            std::span<const int64_t> shape, std::span<const std::byte> data) {
  const std::string npy = NpyHeader(dtype, shape);
  Entry entry;
  entry.file_name = std::string(name) + ".npy";
  const uint64_t size = npy.size() + data.size();
  // 100 bytes more than any header here takes, for the directory as well.
  const uint64_t end = offset_ + size + 2 * (entry.file_name.size() + 100);
  if (end > std::numeric_limits<uint32_t>::max()) {
    return Invalid("%s: more than 4 GiB; choose a shorter prompt", path_);
  }
  Crc32 crc;
  crc.Add(AsBytes(npy));
  crc.Add(data);
  entry.crc = crc.value();
  entry.size = static_cast<uint32_t>(size);
  entry.offset = static_cast<uint32_t>(offset_);

  std::string local;
  Put(local, uint32_t{0x04034b50});
  PutEntry(local, entry.crc, entry.size, entry.file_name);
  local += entry.file_name;
  local += npy;
  out_.write(local.data(), static_cast<std::streamsize>(local.size()));
  out_.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  offset_ += local.size() + data.size();
  entries_.push_back(std::move(entry));
  return Check();
}

absl::Status NpzWriter::Finish() {
  std::string directory;
  for (const Entry& entry : entries_) {
    Put(directory, uint32_t{0x02014b50});
    Put(directory, kZipVersion);  // made by
    PutEntry(directory, entry.crc, entry.size, entry.file_name);
    Put(directory, uint16_t{0});  // comment
    Put(directory, uint16_t{0});  // disk
    Put(directory, uint16_t{0});  // internal attributes
    Put(directory, uint32_t{0});  // external attributes
    Put(directory, entry.offset);
    directory += entry.file_name;
  }
  const auto directory_size = static_cast<uint32_t>(directory.size());
  const auto count = static_cast<uint16_t>(entries_.size());
  Put(directory, uint32_t{0x06054b50});
  Put(directory, uint16_t{0});  // this disk
  Put(directory, uint16_t{0});  // the directory's disk
  Put(directory, count);
  Put(directory, count);
  Put(directory, directory_size);
  Put(directory, static_cast<uint32_t>(offset_));
  Put(directory, uint16_t{0});  // comment
  out_.write(directory.data(), static_cast<std::streamsize>(directory.size()));
  out_.close();
  return Check();
}

absl::Status NpzWriter::Check() {
  return out_ ? absl::OkStatus() : Unavailable("%s: cannot be written", path_);
}

}  // namespace anchorage::tools
