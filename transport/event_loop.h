// The one io_context of a process and the thread that runs it.
//
//   EventLoop loop;
//   loop.OnSignals([&](int) { server->Stop(); loop.Stop(); });
//   loop.Run();  // until Stop()
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace anchorage::transport {

// Everything posted runs on the thread that calls Run(). Post() and Stop() may be called from any
// thread; the rest on the loop's thread, or while nobody runs the loop.
class EventLoop {
 public:
  using TimerId = uint64_t;

  EventLoop();
  ~EventLoop();  // what is still queued is dropped, not run
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  boost::asio::io_context& io();

  // Serves until Stop(). Once.
  void Run();
  // Ends timers and signals and lets Run() return when what is still running has ended, but no
  // later than `drain_ms` from now.
  void Stop(int64_t drain_ms = 2'000);

  void Post(std::function<void()> fn);

  // Once after `delay_ms`, or again and again. A cancelled timer does not run any more; unknown ids
  // are ignored.
  TimerId After(int64_t delay_ms, std::function<void()> fn);
  TimerId Every(int64_t period_ms, std::function<void()> fn);
  void CancelTimer(TimerId id);

  // `handler` runs for every SIGTERM and SIGINT. Call once.
  void OnSignals(std::function<void(int signal)> handler);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace anchorage::transport
