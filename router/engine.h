// What the HTTP front needs of the machine behind it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "router/api_error.h"
#include "router/request_spec.h"
#include "router/response_sink.h"

namespace anchorage::router {

// All but Ready() on the io thread.
class Engine {
 public:
  virtual ~Engine() = default;

  // Takes the request, or says at once why not; then the sink is never called. Otherwise its OnEnd
  // is, exactly once. The sink must not call back into the engine. The id is for Cancel.
  virtual ApiResult<uint64_t> Submit(RequestSpec spec, std::shared_ptr<ResponseSink> sink) = 0;

  // The client left, or does not read. Frees everything; the sink learns it by OnEnd. Returns the
  // stage in which the request was, "" when it was over already.
  virtual const char* Cancel(uint64_t request) = 0;

  // OK while new requests can be served. Thread-safe.
  virtual absl::Status Ready() const = 0;
};

}  // namespace anchorage::router
