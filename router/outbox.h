// Holds what a request has produced until its connection takes it. Private to the HTTP front.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/response_sink.h"

namespace anchorage::router {

// For one reader, on the io thread.
class Outbox : public ResponseSink {
 public:
  explicit Outbox(boost::asio::io_context& io) : wake_(io) {}

  // ResponseSink
  void OnTokens(std::span<const int32_t> ids, std::string_view text) override;
  void OnEnd(const Outcome& outcome) override;

  // Until there is news, or `pause` is over.
  boost::asio::awaitable<void> Wait(std::chrono::milliseconds pause);
  boost::asio::awaitable<void> WaitForEnd();

  // Tokens without text to show are no news but for the first: they go with the next text.
  bool has_news() const { return outcome_ || !text_.empty() || (has_token_ && !token_seen_); }
  bool has_token() const { return has_token_; }  // one came, ever
  // The reader is so slow that it must be given up.
  bool overflows() const;

  const std::vector<int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }
  const std::optional<Outcome>& outcome() const { return outcome_; }
  // The reader has what came so far.
  void Clear();

 private:
  boost::asio::steady_timer wake_;
  std::vector<int32_t> ids_;
  std::string text_;
  bool has_token_ = false;
  bool token_seen_ = false;
  std::optional<Outcome> outcome_;
};

}  // namespace anchorage::router
