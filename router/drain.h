// The router's last act: it refuses new work and lets what runs finish.
#pragma once

#include <cstdint>

#include "common/clock.h"
#include "router/dispatcher.h"
#include "router/http_front.h"

namespace anchorage::router {

// On the io thread. The pointers must outlive it.
class Drain {
 public:
  Drain(Dispatcher* dispatcher, HttpFront* front, const Clock* clock, int64_t timeout_ms)
      : dispatcher_(*dispatcher), front_(*front), clock_(*clock), timeout_ms_(timeout_ms) {}

  void Begin();
  bool begun() const { return begun_; }

  // After Begin(), to be called every few tens of milliseconds: whether each request has ended, its
  // workers have said so and its client has the answer. Once the time is up whatever still runs is
  // failed, and nobody is waited for.
  bool Over();

 private:
  Dispatcher& dispatcher_;
  HttpFront& front_;
  const Clock& clock_;
  const int64_t timeout_ms_;
  bool begun_ = false;
  int64_t deadline_ns_ = 0;
  bool was_over_ = false;
};

}  // namespace anchorage::router
