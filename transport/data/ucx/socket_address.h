// Private to transport/data/: a host's address as UCX wants it.
#pragma once

#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <string>

#include "absl/status/statusor.h"
#include "observe/host_port.h"

namespace anchorage::transport {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  ucs_sock_addr_t ucs() const { return {reinterpret_cast<const sockaddr*>(&storage), size}; }
  std::string ToString() const;
  bool is_wildcard() const;
  bool SameHost(const sockaddr* other) const;
};

// A name is looked up, which may block. Unavailable: there is no such name.
absl::StatusOr<SocketAddress> ResolveHost(const observe::HostPort& where);

// "host:port", likewise. InvalidArgument: not an address.
absl::StatusOr<SocketAddress> ResolveSocketAddress(const std::string& address);

}  // namespace anchorage::transport
