#include "router/outbox.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace anchorage::router {
namespace {

namespace asio = boost::asio;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr size_t kMaxPendingTextBytes = 1 << 20;

}  // namespace

void Outbox::OnTokens(std::span<const int32_t> ids, std::string_view text) {
  has_token_ = true;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  text_ += text;
  wake_.cancel();
}

void Outbox::OnEnd(const Outcome& outcome) {
  outcome_ = outcome;
  wake_.cancel();
}

asio::awaitable<void> Outbox::Wait(std::chrono::milliseconds pause) {
  const auto deadline = asio::steady_timer::clock_type::now() + pause;
  while (!has_news() && asio::steady_timer::clock_type::now() < deadline) {
    wake_.expires_at(deadline);
    co_await wake_.async_wait(kNoThrow);
  }
}

asio::awaitable<void> Outbox::WaitForEnd() {
  wake_.expires_at(asio::steady_timer::time_point::max());
  while (!outcome_) co_await wake_.async_wait(kNoThrow);
}

bool Outbox::overflows() const { return text_.size() > kMaxPendingTextBytes; }

void Outbox::Clear() {
  token_seen_ = has_token_;
  ids_.clear();
  text_.clear();
}

}  // namespace anchorage::router
