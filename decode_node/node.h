// The decode node as a process: the engine behind a control channel and a data plane.
//
//   io thread       control messages, grants, tokens to the routers, timers
//   data thread     announcements and landings           (landing.h)
//   verify thread   checksums                            (verifier.h)
//   engine thread   the step loop                        (core/engine.h)
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "common/clock.h"
#include "common/ids.h"
#include "decode_node/core/engine.h"
#include "decode_node/landing.h"
#include "decode_node/metrics.h"
#include "decode_node/quarantine_watch.h"
#include "decode_node/verifier.h"
#include "kernels/stream.h"
#include "proto/worker.pb.h"
#include "transport/control/channel.h"
#include "transport/data/data_plane.h"
#include "transport/event_loop.h"
#include "worker/control_node.h"
#include "worker/program.h"
#include "worker/transfer_metrics.h"

namespace anchorage::decode {

struct NodeOptions {
  std::string data_address;  // host:port of the data plane
  int64_t kv_memory_bytes = 0;
  int64_t lease_ms = 10'000;
};

class DecodeNode final : public worker::ControlNode, private EngineListener {
 public:
  // All references must outlive the node.
  static absl::StatusOr<std::unique_ptr<DecodeNode>> Create(const worker::Settings& settings,
                                                            const NodeOptions& options,
                                                            const worker::LoadedModel& model,
                                                            transport::EventLoop& loop,
                                                            observe::MetricsRegistry& registry);
  ~DecodeNode() override;

  // worker::Node
  absl::Status Live() const override;
  bool Idle() const override;

 private:
  // Whose attempt it is, from the grant to its end.
  struct Owner {
    transport::ControlChannelPtr router;
    std::string request_id;
    int64_t num_tokens = 0;
    int64_t first_token_ns = 0;
    int64_t last_token_ns = 0;
  };
  using Owners = std::unordered_map<AttemptId, Owner>;

  DecodeNode(const worker::Settings& settings, const NodeOptions& options,
             const worker::LoadedModel& model, transport::EventLoop& loop,
             observe::MetricsRegistry& registry);

  absl::Status CreateEngine(const worker::LoadedModel& model, observe::MetricsRegistry& registry);

  // worker::ControlNode
  absl::Status StartWork() override;
  void StopWork() override;
  absl::Status Healthy() const override;
  void DescribeState(proto::NodeState& state) const override;
  bool HandleMessage(const transport::ControlChannelPtr& router, proto::Envelope& message) override;
  void OnRouterGone(const transport::ControlChannelPtr& router) override;

  // EngineListener: posts to the io thread.
  void OnJoin(int64_t waited_ns) override { metrics_.OnJoin(waited_ns); }
  void OnToken(AttemptId id, int64_t index, int32_t token, model::Finish finish) override;
  void OnEnded(AttemptId id, const absl::Status& status, const char* stage) override;
  void OnStep(int64_t batch_size, int64_t duration_ns) override;

  void OnReserve(const transport::ControlChannelPtr& router, const proto::Reserve& reserve);
  void OnRenew(const transport::ControlChannelPtr& router, const proto::Renew& renew);
  void OnCancel(const transport::ControlChannelPtr& router, const proto::Cancel& cancel);
  void Refuse(const transport::ControlChannelPtr& router, const proto::Attempt& attempt,
              const ReserveAnswer& answer);
  void SendToken(AttemptId id, int64_t index, int32_t token, model::Finish finish);
  void SendEnded(AttemptId id, const absl::Status& status, const char* stage);
  void Forget(Owners::iterator owner);
  void ExpireLeases();
  void RunEngine();

  const NodeOptions options_;
  Metrics metrics_;
  worker::TransferMetrics transfers_;
  kernels::Stream stream_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Verifier> verifier_;
  mutable QuarantineWatch quarantine_;  // of Healthy(), which remembers since when it is ill
  std::unique_ptr<LandingReceiver> receiver_;
  std::unique_ptr<transport::DataPlane> data_;
  std::thread engine_thread_;
  Owners owners_;  // io thread
};

}  // namespace anchorage::decode
