// What a router says to its workers, and how it reads what they say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/ids.h"
#include "proto/worker.pb.h"
#include "router/api_error.h"
#include "router/request.h"
#include "router/response_sink.h"

namespace anchorage::router {

// `deadline_ms`: what is left of the request's time.
proto::Envelope EnqueueMessage(const Request& request, int64_t deadline_ms);
proto::Envelope ReserveMessage(const Request& request, const proto::Identity& identity);
// `granted`: nothing when one token is asked for, of which nothing is shipped.
proto::Envelope StartPrefillMessage(const Request& request, const proto::Granted* granted);
proto::Envelope RenewMessage(const Request& request);
proto::Envelope CancelMessage(const AttemptId& attempt, const std::string& log_id);

AttemptId IdOf(const proto::Attempt& attempt);
std::optional<FinishReason> ReasonOf(proto::Finish finish);
// The bytes that a decode node's numbers leave free; nothing where they make no sense.
std::optional<int64_t> HeadroomOf(const proto::NodeState& state);
// What a client is told when a worker gave its attempt up.
ApiError ErrorOf(const proto::Ended& ended);

}  // namespace anchorage::router
