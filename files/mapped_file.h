// A whole file mapped read-only into memory.
//
// The mapping is as long as the file was when it was opened. If another process truncates the file
// afterwards, reading past its new end raises SIGBUS: model files must be replaced by rename, never
// rewritten in place while a process serves from them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace anchorage::files {

class MappedFile {
 public:
  // NotFound: no such file. InvalidArgument: not a regular file, or not readable as one.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // The file's bytes, valid as long as this object (or the one it was moved to) lives.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;  // owned; empty when the file is empty or after a move
};

}  // namespace anchorage::files
