// Writes small GGUF files for tests, well-formed unless told otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "files/gguf.h"

namespace anchorage::files {

// Little-endian values one after another.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& Put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  ByteWriter& PutRaw(std::string_view raw) {
    bytes_ += raw;
    return *this;
  }
  ByteWriter& PutString(std::string_view text) {
    return Put(static_cast<uint64_t>(text.size())).PutRaw(text);
  }
  ByteWriter& PutType(GgufValueType type) { return Put(static_cast<uint32_t>(type)); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Each field can be overwritten with a lie before Build().
class GgufBuilder {
 public:
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t num_tensors = 0;  // counted by AddTensor
  uint64_t num_entries = 0;  // counted by the Add functions
  uint64_t alignment = 32;   // of the padding written here; the key is not added

  // An entry whose bytes after the key (type and value) are given as they stand.
  GgufBuilder& AddRaw(std::string_view key, std::string_view type_and_value) {
    entries_.PutString(key).PutRaw(type_and_value);
    ++num_entries;
    return *this;
  }
  template <typename T>
  GgufBuilder& Add(std::string_view key, GgufValueType type, T value) {
    return AddRaw(key, ByteWriter().PutType(type).Put(value).bytes());
  }
  GgufBuilder& AddU32(std::string_view key, uint32_t value) {
    return Add(key, GgufValueType::kUint32, value);
  }
  GgufBuilder& AddBool(std::string_view key, bool value) {
    return Add(key, GgufValueType::kBool, static_cast<uint8_t>(value));
  }
  GgufBuilder& AddString(std::string_view key, std::string_view value) {
    return AddRaw(key, ByteWriter().PutType(GgufValueType::kString).PutString(value).bytes());
  }
  GgufBuilder& AddStrings(std::string_view key, std::span<const std::string> values) {
    ByteWriter value;
    value.PutType(GgufValueType::kArray).PutType(GgufValueType::kString);
    value.Put(static_cast<uint64_t>(values.size()));
    for (const std::string& item : values) value.PutString(item);
    return AddRaw(key, value.bytes());
  }
  template <typename T>
  GgufBuilder& AddArray(std::string_view key, GgufValueType element, std::span<const T> values) {
    ByteWriter value;
    value.PutType(GgufValueType::kArray).PutType(element);
    value.Put(static_cast<uint64_t>(values.size()));
    for (const T item : values) value.Put(item);
    return AddRaw(key, value.bytes());
  }

  // A tensor whose bytes are appended to the data section at the next aligned offset.
  GgufBuilder& AddTensor(std::string_view name, TensorType type, std::vector<int64_t> dims,
                         std::string_view data) {
    Pad(data_);
    AddTensorInfo(name, static_cast<uint32_t>(type), dims, data_.size());
    data_ += data;
    return *this;
  }
  // Only the info, with any type and offset.
  GgufBuilder& AddTensorInfo(std::string_view name, uint32_t type, std::vector<int64_t> dims,
                             uint64_t offset) {
    infos_.PutString(name).Put(static_cast<uint32_t>(dims.size()));
    for (const int64_t dim : dims) infos_.Put(dim);
    infos_.Put(type).Put(offset);
    ++num_tensors;
    return *this;
  }
  // Bytes put after the tensor infos as they stand; counts nothing.
  GgufBuilder& AddRawInfo(std::string_view raw) {
    infos_.PutRaw(raw);
    return *this;
  }

  std::string Build() const {
    ByteWriter header;
    header.PutRaw(magic).Put(version).Put(num_tensors).Put(num_entries);
    std::string file = header.bytes() + entries_.bytes() + infos_.bytes();
    if (num_tensors > 0) Pad(file);
    return file + data_;
  }

 private:
  void Pad(std::string& bytes) const {
    while (bytes.size() % alignment != 0) bytes += '\0';
  }

  ByteWriter entries_;
  ByteWriter infos_;
  std::string data_;
};

// `file` in memory that Parse may be given: aligned, and without a byte to spare, so that a
// sanitizer sees any read past the end.
class AlignedFile {
 public:
  explicit AlignedFile(std::string_view file) : size_(file.size()), bytes_(new std::byte[size_]) {
    std::memcpy(bytes_.get(), file.data(), size_);
  }
  std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace anchorage::files
