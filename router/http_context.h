// What every connection of the HTTP front works with.
#pragma once

#include "common/clock.h"
#include "router/engine.h"
#include "router/http_options.h"
#include "router/request_spec.h"
#include "router/router_metrics.h"
#include "router/served_model.h"
#include "router/small_answers.h"

namespace boost::asio {
class io_context;
}

namespace anchorage::router {

struct HttpContext {
  boost::asio::io_context& io;
  const HttpOptions options;
  const ServedModel& model;
  const SpecLimits limits;
  Engine& engine;
  const Clock& clock;
  RouterMetrics& metrics;
  const SmallAnswers small_answers;
  bool draining = false;  // every answer closes its connection
  int answering = 0;      // completion requests whose answer is not written yet
  bool stopped = false;
};

}  // namespace anchorage::router
