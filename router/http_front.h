// The HTTP front door: HTTP/1.1 on one port, one coroutine per connection, all on the io thread.
//
// Whatever a client sends, its headers, body, time and connections are bounded and it is answered
// with an error of the OpenAI shape or cut off; others do not notice. While a request is served its
// connection is watched: a client that leaves (or half-closes), or that takes nothing for
// `write_timeout_ms`, cancels the request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "router/engine.h"
#include "router/request_spec.h"
#include "router/router_metrics.h"
#include "router/served_model.h"

namespace boost::asio {
class io_context;
}

namespace anchorage::router {

struct HttpOptions {
  std::string listen;   // "host:port", port 0 = any
  std::string api_key;  // "": none is asked for
  int max_connections = 4096;
  int64_t max_header_bytes = 32 << 10;
  int64_t max_body_bytes = 4 << 20;
  int64_t header_timeout_ms = 10'000;  // from a request's first byte to the end of its headers
  int64_t body_timeout_ms = 60'000;    // from there to the end of its body
  int64_t idle_timeout_ms = 120'000;   // between two requests; longer than proxies keep theirs
  int64_t write_timeout_ms = 30'000;   // of one write
  int64_t keep_alive_ms = 10'000;      // silence after which a stream gets a comment
};

class HttpFront {
 public:
  // Listens and serves on `io`. The pointers must outlive the front. InvalidArgument or
  // Unavailable: the address.
  static absl::StatusOr<std::unique_ptr<HttpFront>> Start(
      boost::asio::io_context& io, const HttpOptions& options, const ServedModel* model,
      const SpecLimits& limits, Engine* engine, const Clock* clock, RouterMetrics* metrics);
  ~HttpFront();

  std::string address() const;  // with the real port
  int connections() const;
  // From now on every answer closes its connection.
  void BeginDrain();
  // Stops listening and closes every connection, which cancels what they wait for. Idempotent.
  void Stop();

  struct State;  // of http_front.cc, whose connections share it

 private:
  explicit HttpFront(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace anchorage::router
