#include "router/drain.h"

#include <utility>

#include "observe/logging.h"
#include "router/api_error.h"

namespace anchorage::router {

void Drain::Begin() {
  observe::LogInfo("", "draining: %d requests are running", dispatcher_.running());
  begun_ = true;
  deadline_ns_ = clock_.NowNs() + timeout_ms_ * 1'000'000;
  dispatcher_.BeginDrain();
  front_.BeginDrain();
}

bool Drain::Over() {
  const bool late = clock_.NowNs() >= deadline_ns_;
  if (late) dispatcher_.FailAll(Draining());
  const bool told = dispatcher_.closing() == 0 && front_.answering() == 0;
  const bool over = dispatcher_.running() == 0 && (late || told);
  // One call more, until which the last answers are written.
  return std::exchange(was_over_, over) && over;
}

}  // namespace anchorage::router
