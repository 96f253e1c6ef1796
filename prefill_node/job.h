// One attempt at a prefill node, from Enqueue to its terminal state.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/ids.h"
#include "prefill_node/core/queue.h"
#include "prefill_node/core/request.h"
#include "prefill_node/shipment.h"
#include "transport/control/channel.h"

namespace anchorage::prefill {

// Belongs to the io thread, but for `cancelled`, and for what the engine reads while kRunning.
struct Job {
  enum class State : uint8_t {
    kQueued,    // in the queue
    kTaken,     // the router is reserving
    kRunning,   // granted: waiting for the engine, or in it
    kShipping,  // the first token is known, layers are on their way
  };

  AttemptId id;
  std::string request_id;
  transport::ControlChannelPtr router;
  int64_t deadline_ns = 0;  // 0: none
  QueuedPrompt prompt;      // once it is out of the queue

  State state = State::kQueued;
  int64_t queue_ns = 0;                // time spent in the queue
  std::shared_ptr<Shipment> shipment;  // null: nothing to ship
  kernels::CodePacking packing = kernels::CodePacking::kLinear;
  std::atomic<bool> cancelled{false};  // ends the engine's work at the next chunk
  absl::Status failure;                // why, where it was not the router who asked for it
  const char* failed_stage = "prefill";
  PrefillResult result;
};

}  // namespace anchorage::prefill
