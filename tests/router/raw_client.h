// A client that sends exactly the bytes it is given, right or wrong, over a blocking socket.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace anchorage::router {

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer_bytes > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof(receive_buffer_bytes));
    }
    const timeval limit{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void Close() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }
  void ShutdownSend() { shutdown(socket_, SHUT_WR); }

  // False when the server has closed meanwhile.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // One read; "" at the end.
  std::string ReadSome() {
    char bytes[16384];
    const ssize_t count = recv(socket_, bytes, sizeof(bytes), 0);
    return count > 0 ? std::string(bytes, static_cast<size_t>(count)) : "";
  }
  // Until the server closes.
  std::string ReadAll() {
    std::string all;
    for (std::string part = ReadSome(); !part.empty(); part = ReadSome()) all += part;
    return all;
  }
  // Until `mark` was read, or the server closes.
  std::string ReadUntil(std::string_view mark) {
    std::string all;
    while (all.find(mark) == std::string::npos) {
      const std::string part = ReadSome();
      if (part.empty()) break;
      all += part;
    }
    return all;
  }

 private:
  int socket_;
  bool connected_ = false;
};

}  // namespace anchorage::router
