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
#include "router/http_options.h"
#include "router/request_spec.h"
#include "router/router_metrics.h"
#include "router/served_model.h"

namespace boost::asio {
class io_context;
}

namespace anchorage::router {

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
  // Completion requests whose answer is not written yet.
  int answering() const;
  // Stops listening and closes every connection, which cancels what they wait for. Idempotent.
  void Stop();

 private:
  struct State;
  explicit HttpFront(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace anchorage::router
