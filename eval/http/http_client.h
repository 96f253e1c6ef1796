// A small HTTP/1.1 client for OpenAI endpoints: one request at a time, one connection each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace anchorage::eval {

// "http://host:8000/v1" taken apart.
struct HttpEndpoint {
  std::string host;  // an IPv6 address without its brackets
  std::string port;
  std::string path;  // "/v1", without a slash at the end; may be empty

  // "host:8000" or "[::1]:8000", as in the Host header.
  std::string Authority() const {
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return (is_ipv6 ? "[" + host + "]" : host) + ":" + port;
  }
  std::string ToString() const { return "http://" + Authority() + path; }
};

// InvalidArgument: not an http:// address, or without a host. Port 80 where none is named.
absl::StatusOr<HttpEndpoint> ParseEndpoint(std::string_view url);

struct HttpReply {
  int status = 0;
  int64_t retry_after_s = 0;  // what the header of that name asks for; 0: nothing
  std::string body;
};

// Posts `json` to `path` below the endpoint's own. `bearer`: the API key; empty: none.
// Unavailable: nobody answers there, or not in HTTP. DeadlineExceeded: no whole reply within the
// time, which does not bound the system's search for the host's address. A reply with an error
// status is a reply. Blocks.
absl::StatusOr<HttpReply> PostJson(const HttpEndpoint& endpoint, std::string_view path,
                                   const std::string& json, const std::string& bearer,
                                   int64_t timeout_s);

}  // namespace anchorage::eval
