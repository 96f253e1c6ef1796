// Answers one completion request: from its body to the last byte of its answer. Private to the HTTP
// front.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "router/completion_request.h"
#include "router/completion_writer.h"
#include "router/exchange.h"
#include "router/http_connection.h"
#include "router/http_context.h"
#include "router/outbox.h"

namespace anchorage::router {

// While the answer is made the connection is watched: a client that leaves, or takes nothing,
// cancels its request.
class CompletionService {
 public:
  // All must outlive it.
  CompletionService(HttpContext& context, HttpConnection& connection, Exchange& exchange)
      : context_(context), connection_(connection), exchange_(exchange) {}

  // Whether the connection may be used again.
  boost::asio::awaitable<bool> Answer(Endpoint endpoint, std::string body);

 private:
  CompletionWriter MakeWriter(const CompletionRequest& request, const RequestSpec& spec) const;
  // Hands the spec to the engine and the answer to the client.
  boost::asio::awaitable<bool> Serve(RequestSpec spec, CompletionWriter writer, bool stream);
  boost::asio::awaitable<bool> Deliver(const CompletionWriter& writer, bool stream,
                                       std::shared_ptr<Outbox> outbox);
  boost::asio::awaitable<bool> DeliverWhole(const CompletionWriter& writer,
                                            std::shared_ptr<Outbox> outbox);
  boost::asio::awaitable<bool> DeliverStream(const CompletionWriter& writer,
                                             std::shared_ptr<Outbox> outbox);
  // Ends when the client has gone, with the stage in which its request was cancelled.
  boost::asio::awaitable<const char*> CancelWhenGone(uint64_t request);

  HttpContext& context_;
  HttpConnection& connection_;
  Exchange& exchange_;
};

}  // namespace anchorage::router
