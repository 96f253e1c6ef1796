// Arrays for numpy: an .npz file is a zip archive of .npy files (NEP 1), here stored as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace anchorage::tools {

// Not thread-safe. The file is an archive only after Finish.
class NpzWriter {
 public:
  // Truncates `path`. Unavailable: it cannot be opened.
  static absl::StatusOr<NpzWriter> Create(const std::string& path);

  // Adds one array in C order. `dtype` is numpy's: "<f4", "<u2", "|u1", ...
  // InvalidArgument: the archive would pass the 4 GiB that a plain zip can hold. Unavailable: the
  // file cannot be written.
  absl::Status Add(std::string_view name, std::string_view dtype, std::span<const int64_t> shape,
                   std::span<const std::byte> data);

  // Writes the directory and closes the file. Call once.
  absl::Status Finish();

 private:
  struct Entry {
    std::string file_name;
    uint32_t crc = 0;
    uint32_t size = 0;
    uint32_t offset = 0;
  };

  NpzWriter(std::string path, std::ofstream out) : path_(std::move(path)), out_(std::move(out)) {}
  absl::Status Check();

  std::string path_;
  std::ofstream out_;
  std::vector<Entry> entries_;
  uint64_t offset_ = 0;
};

}  // namespace anchorage::tools
