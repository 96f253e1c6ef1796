#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/status.h"

namespace anchorage::files {
namespace {

// Closes a descriptor at the end of a scope; a mapping outlives its descriptor.
class ScopedFd {
 public:
  explicit ScopedFd(int fd) : fd_(fd) {}
  ~ScopedFd() {
    if (fd_ >= 0) close(fd_);
  }
  ScopedFd(const ScopedFd&) = delete;
  ScopedFd& operator=(const ScopedFd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must fail below, not hang here.
  const ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    const int error = errno;
    if (error == ENOENT) return NotFound("%s: no such file", path);
    return Invalid("%s: cannot open: %s", path, std::strerror(error));
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return Invalid("%s: cannot read its size: %s", path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return Invalid("%s: not a regular file", path);
  if (info.st_size == 0) return MappedFile({});
  const size_t size = static_cast<size_t>(info.st_size);
  void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) {
    return Invalid("%s: cannot map %d bytes: %s", path, size, std::strerror(errno));
  }
  return MappedFile({static_cast<const std::byte*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace anchorage::files
