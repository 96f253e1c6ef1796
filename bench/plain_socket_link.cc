#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "bench/link.h"
#include "common/aligned_buffer.h"
#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::bench {
namespace {

// The first bytes of a transfer.
struct Header {
  uint64_t length = 0;
  char rest[kLinkHeaderBytes - sizeof(uint64_t)] = {};
};

// A descriptor with its owner.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void SendAtOnce() const {
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  bool Read(void* to, size_t length) const {
    return recv(fd_, to, length, MSG_WAITALL) == static_cast<ssize_t>(length);
  }
  bool Write(const void* from, size_t length) const {
    const char* at = static_cast<const char*>(from);
    while (length > 0) {
      const ssize_t written = send(fd_, at, length, MSG_NOSIGNAL);
      if (written <= 0) return false;
      at += written;
      length -= static_cast<size_t>(written);
    }
    return true;
  }

 private:
  int fd_;
};

absl::Status SystemError(const char* what) {
  return Unavailable("%s: %s", what, std::strerror(errno));
}

class PlainSocketLink : public Link {
 public:
  static absl::StatusOr<std::unique_ptr<Link>> Create() {
    auto link = std::make_unique<PlainSocketLink>();
    RETURN_IF_ERROR(link->Connect());
    link->receiver_ = std::thread([raw = link.get()] { raw->Receive(); });
    return link;
  }
  ~PlainSocketLink() override {
    if (sending_.valid()) shutdown(sending_.fd(), SHUT_RDWR);
    if (receiver_.joinable()) receiver_.join();
  }

  absl::Status Carry(std::span<const std::byte> payload, size_t count) override {
    const Header header{payload.size(), {}};
    for (size_t i = 0; i < count; ++i) {
      if (!sending_.Write(&header, sizeof(header)) ||
          !sending_.Write(payload.data(), payload.size())) {
        return SystemError("send");
      }
    }
    char answers[kLinkMaxAtOnce];
    return sending_.Read(answers, count) ? absl::OkStatus() : SystemError("recv");
  }

  std::span<const std::byte> arrived(size_t length) const override {
    return region_.span().first(length);
  }

  std::string Describe() const override { return "plain: one blocking socket, two threads"; }

 private:
  absl::Status Connect() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    const Socket listening(socket(AF_INET, SOCK_STREAM, 0));
    if (bind(listening.fd(), any, size) != 0 || listen(listening.fd(), 1) != 0 ||
        getsockname(listening.fd(), any, &size) != 0) {
      return SystemError("listen");
    }
    sending_ = Socket(socket(AF_INET, SOCK_STREAM, 0));
    if (connect(sending_.fd(), any, size) != 0) return SystemError("connect");
    receiving_ = Socket(accept(listening.fd(), nullptr, nullptr));
    if (!receiving_.valid()) return SystemError("accept");
    sending_.SendAtOnce();
    receiving_.SendAtOnce();
    return absl::OkStatus();
  }

  void Receive() {
    const char answer = 'k';
    Header header;
    while (receiving_.Read(&header, sizeof(header)) &&
           receiving_.Read(region_.data(), header.length) && receiving_.Write(&answer, 1)) {
    }
  }

  AlignedBuffer region_{kLinkMaxBytes};
  Socket sending_;
  Socket receiving_;
  std::thread receiver_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> MakePlainSocketLink() { return PlainSocketLink::Create(); }

}  // namespace anchorage::bench
