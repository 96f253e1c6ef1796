#include "transport/event_loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <unordered_map>
#include <utility>

#include "transport/net/asio.h"

namespace anchorage::transport {

struct EventLoop::State {
  struct Timer {
    asio::steady_timer timer;
    int64_t period_ms = 0;  // 0: once
    std::function<void()> fn;
  };

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  asio::signal_set signals{io};
  std::chrono::steady_clock::time_point drain_end;
  std::unordered_map<TimerId, std::shared_ptr<Timer>> timers;
  TimerId next_timer = 1;

  TimerId Start(int64_t delay_ms, int64_t period_ms, std::function<void()> fn) {
    const TimerId id = next_timer++;
    auto timer = std::make_shared<Timer>(Timer{asio::steady_timer(io), period_ms, std::move(fn)});
    timers.emplace(id, timer);
    Arm(id, timer, delay_ms);
    return id;
  }

  void Arm(TimerId id, const std::shared_ptr<Timer>& timer, int64_t delay_ms) {
    timer->timer.expires_after(std::chrono::milliseconds(delay_ms));
    timer->timer.async_wait([this, id, timer](const error_code& error) {
      if (error || !timers.contains(id)) return;  // cancelled, perhaps after it had expired
      if (timer->period_ms > 0) {
        Arm(id, timer, timer->period_ms);
      } else {
        timers.erase(id);
      }
      timer->fn();
    });
  }

  void WaitForSignal(std::shared_ptr<std::function<void(int)>> handler) {
    signals.async_wait([this, handler](const error_code& error, int signal) {
      if (error) return;
      WaitForSignal(handler);
      (*handler)(signal);
    });
  }

  // Ends everything of ours that would keep the loop busy.
  void EndTimersAndSignals() {
    for (auto& [id, timer] : timers) timer->timer.cancel();
    timers.clear();
    error_code ignored;
    signals.cancel(ignored);
    signals.clear(ignored);
    work.reset();
  }
};

EventLoop::EventLoop() : state_(std::make_unique<State>()) {}
EventLoop::~EventLoop() = default;

asio::io_context& EventLoop::io() { return state_->io; }

void EventLoop::Run() {
  state_->io.run();  // ends by io.stop() alone, since `work` is held
  state_->io.restart();
  state_->io.run_until(state_->drain_end);
}

void EventLoop::Stop(int64_t drain_ms) {
  asio::post(state_->io, [state = state_.get(), drain_ms] {
    state->drain_end = std::chrono::steady_clock::now() + std::chrono::milliseconds(drain_ms);
    state->EndTimersAndSignals();
    state->io.stop();
  });
}

void EventLoop::Post(std::function<void()> fn) { asio::post(state_->io, std::move(fn)); }

EventLoop::TimerId EventLoop::After(int64_t delay_ms, std::function<void()> fn) {
  return state_->Start(delay_ms, 0, std::move(fn));
}

EventLoop::TimerId EventLoop::Every(int64_t period_ms, std::function<void()> fn) {
  return state_->Start(period_ms, period_ms, std::move(fn));
}

void EventLoop::CancelTimer(TimerId id) {
  const auto found = state_->timers.find(id);
  if (found == state_->timers.end()) return;
  found->second->timer.cancel();
  state_->timers.erase(found);
}

void EventLoop::OnSignals(std::function<void(int signal)> handler) {
  state_->signals.add(SIGTERM);
  state_->signals.add(SIGINT);
  state_->WaitForSignal(std::make_shared<std::function<void(int)>>(std::move(handler)));
}

}  // namespace anchorage::transport
