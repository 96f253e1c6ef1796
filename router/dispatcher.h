// Takes requests in, carries them through a prefill and a decode node, and hands their text out.
//
//   Submit -> waiting queue -> Enqueue at prefill -> Taken -> Reserve at decode -> Granted
//          -> StartPrefill -> PrefillDone, Tokens ... -> the sink's OnEnd, exactly once
//
// Memory is promised to nobody who waits: a request is handed to a prefill queue only while some
// decode node's headroom covers it together with those handed over before, and bytes are reserved
// when prefill takes it. First come, first served: whoever does not fit holds up those behind, but
// once prefill has taken it only those of its own model.
//
// No sockets and no clock of its own: channels and the clock are injected, Tick() drives the
// deadlines. Everything runs on the io thread but Ready().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "router/closing_table.h"
#include "router/engine.h"
#include "router/health.h"
#include "router/ledger.h"
#include "router/placement.h"
#include "router/request.h"
#include "router/request_observer.h"
#include "router/router_metrics.h"
#include "router/worker_table.h"
#include "transport/control/channel.h"

namespace anchorage::router {

struct DispatcherOptions {
  int64_t queue_size = 256;  // requests that prefill has not begun
  int64_t queue_timeout_ms = 30'000;
  int64_t request_timeout_ms = 600'000;
  int64_t cancel_repeat_ms = 2'000;  // a Cancel that nobody answered is sent again
  uint64_t boot_id = 1;
};

class Dispatcher : public Engine {
 public:
  // All must outlive the dispatcher.
  Dispatcher(const DispatcherOptions& options, proto::Identity identity,
             const text::Tokenizer* tokenizer, const Clock* clock, RouterMetrics* metrics);
  ~Dispatcher() override;

  // What the dialers of each role report to.
  transport::ControlHandler& prefill_handler();
  transport::ControlHandler& decode_handler();

  ApiResult<uint64_t> Submit(RequestSpec spec, std::shared_ptr<ResponseSink> sink) override;
  const char* Cancel(uint64_t request) override;

  // Deadlines and repeated cancels. Call every few tens of milliseconds.
  void Tick();

  // From now on new requests are refused; `running` goes to 0.
  void BeginDrain();
  // Ends what still runs with an error.
  void FailAll(const ApiError& error);

  absl::Status Ready() const override { return health_.Ready(); }

  // OK while Tick() is being called: the io thread is not stuck. Thread-safe.
  absl::Status Live() const { return health_.Live(); }

  int64_t running() const { return static_cast<int64_t>(requests_.size()); }
  int64_t closing() const { return closing_.size(); }  // attempts: see ClosingTable
  const Ledger& ledger() const { return ledger_; }

 private:
  class Handler;

  absl::Status OnHello(proto::Role role, const proto::Hello& hello);
  void OnUp(proto::Role role, transport::ControlChannelPtr channel);
  void OnMessage(const transport::ControlChannel* channel, const proto::Envelope& message);
  void OnDown(const transport::ControlChannel* channel, const absl::Status& reason);

  void OnState(Worker& worker, const proto::NodeState& state);
  void OnTaken(Worker& worker, const proto::Attempt& attempt);
  void OnGranted(Worker& worker, const proto::Granted& granted);
  void OnRefused(Worker& worker, const proto::Refused& refused);
  void OnPrefillDone(Worker& worker, const proto::PrefillDone& done);
  void OnTokens(Worker& worker, const proto::Tokens& tokens);
  void OnEnded(Worker& worker, const proto::Ended& ended);

  Request* Find(const proto::Attempt& attempt);
  std::optional<ApiError> WhyNot(const RequestSpec& spec);
  // Hands over from the waiting queue, and asks for memory, as far as possible, in order.
  void Pump();
  // Chooses the request's nodes and promises its bytes; false while there are none for it.
  bool Place(Request& request);
  bool TryEnqueue(Request& request);
  // Asks for the memory of those that prefill has taken, as far as there is any.
  void ReserveAll();
  bool TryReserve(Request& request, const Worker& prefill);
  void StartPrefill(Request& request, const proto::Granted* granted);
  // Keeps the grants of those that are being prefilled, however long a layer takes.
  void RenewLeases();
  void Accept(Request& request, int64_t first_index, std::span<const int32_t> ids,
              std::optional<FinishReason> finish);
  void Finish(Request& request, FinishReason reason);
  void Fail(Request& request, ApiError error);
  // Ends it, and tells every worker that has not said so itself that it is over.
  void End(Request& request, Outcome outcome);
  void SendTo(WorkerId worker, proto::Envelope message);  // nothing where it is gone
  bool WaitsForMemory(const Request& request) const;
  void UpdateReadiness();

  const DispatcherOptions options_;
  const text::Tokenizer* const tokenizer_;
  const Clock& clock_;
  RouterMetrics& metrics_;
  RequestObserver observer_;
  Health health_;
  std::unique_ptr<Handler> prefill_handler_;
  std::unique_ptr<Handler> decode_handler_;
  WorkerTable workers_;
  Ledger ledger_;
  const Placement placement_;
  uint64_t next_request_;
  bool draining_ = false;

  RequestMap requests_;           // those that are not done
  std::deque<uint64_t> waiting_;  // state kWaiting, oldest first
  std::set<uint64_t> reserving_;  // kReserving without a Reserve on its way, oldest first
  ClosingTable closing_;
};

}  // namespace anchorage::router
