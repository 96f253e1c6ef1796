#include "common/read_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "common/status.h"

namespace anchorage {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) {
    if (errno == ENOENT) return NotFound("%s: no such file", path);
    return Invalid("%s: cannot open: %s", path, std::strerror(errno));
  }
  std::string bytes;
  std::array<char, 1 << 16> block;
  size_t read = 0;
  while ((read = std::fread(block.data(), 1, block.size(), file.get())) > 0) {
    bytes.append(block.data(), read);
  }
  if (std::ferror(file.get()) != 0) {
    return Invalid("%s: cannot read: %s", path, std::strerror(errno));
  }
  return bytes;
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& flag, const std::string& path) {
  if (path.empty()) return std::string();
  absl::StatusOr<std::string> secret = ReadFile(path);
  if (!secret.ok()) return Invalid("%s: %s", flag, std::string(secret.status().message()));
  secret->resize(std::min(secret->find_first_of("\r\n"), secret->size()));
  if (secret->empty()) return Invalid("%s: the first line of %s is empty", flag, path);
  return secret;
}

}  // namespace anchorage
