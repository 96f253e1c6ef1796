#include "transport/data/ucx/socket_address.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>

#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::transport {

using observe::HostPort;

std::string SocketAddress::ToString() const {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&storage), size, host, sizeof(host), port,
                  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "?";
  }
  return HostPort{host, static_cast<uint16_t>(std::atoi(port))}.ToString();
}

bool SocketAddress::is_wildcard() const {
  if (storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr == INADDR_ANY;
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
}

bool SocketAddress::SameHost(const sockaddr* other) const {
  if (other == nullptr || other->sa_family != storage.ss_family) return false;
  if (storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(other)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr;
  }
  return storage.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(other)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

absl::StatusOr<SocketAddress> ResolveHost(const HostPort& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(where.port);
  if (const int error = getaddrinfo(where.host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return Unavailable("resolving %s: %s", where.host, gai_strerror(error));
  }
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

absl::StatusOr<SocketAddress> ResolveSocketAddress(const std::string& address) {
  ASSIGN_OR_RETURN(const HostPort where, observe::ParseHostPort(address));
  return ResolveHost(where);
}

}  // namespace anchorage::transport
