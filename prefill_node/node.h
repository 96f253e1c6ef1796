// The prefill node as a process: queue and engine behind a control channel, shipping each finished
// layer over the data plane.
//
//   io thread      control messages, queue, answers to the routers, timers
//   engine thread  the prefill engine                       (engine_thread.h)
//   data thread    transfers and their verdicts             (shipment.h)
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "kernels/stream.h"
#include "model/finish.h"
#include "prefill_node/core/accountant.h"
#include "prefill_node/core/engine.h"
#include "prefill_node/core/queue.h"
#include "prefill_node/engine_thread.h"
#include "prefill_node/job.h"
#include "prefill_node/metrics.h"
#include "proto/worker.pb.h"
#include "transport/control/channel.h"
#include "transport/data/data_plane.h"
#include "transport/event_loop.h"
#include "worker/control_node.h"
#include "worker/program.h"
#include "worker/transfer_metrics.h"

namespace anchorage::prefill {

struct NodeOptions {
  QueueLimits queue;
  int64_t chunk_tokens = 2048;
  std::string data_host;  // the interface over which KV leaves
};

class PrefillNode final : public worker::ControlNode {
 public:
  // All references must outlive the node.
  static absl::StatusOr<std::unique_ptr<PrefillNode>> Create(const worker::Settings& settings,
                                                             const NodeOptions& options,
                                                             const worker::LoadedModel& model,
                                                             transport::EventLoop& loop,
                                                             observe::MetricsRegistry& registry);
  ~PrefillNode() override;

  // worker::Node
  absl::Status Live() const override;
  bool Idle() const override;

 private:
  using JobPtr = std::shared_ptr<Job>;

  PrefillNode(const worker::Settings& settings, const NodeOptions& options,
              const worker::LoadedModel& model, transport::EventLoop& loop,
              observe::MetricsRegistry& registry);

  absl::Status CreateEngine(const worker::LoadedModel& model, observe::MetricsRegistry& registry);

  // worker::ControlNode
  absl::Status StartWork() override;
  void StopWork() override;
  void DescribeState(proto::NodeState& state) const override;
  bool HandleMessage(const transport::ControlChannelPtr& router, proto::Envelope& message) override;
  void OnRouterGone(const transport::ControlChannelPtr& router) override;

  void OnEnqueue(const transport::ControlChannelPtr& router, proto::Enqueue& enqueue);
  void OnStart(const transport::ControlChannelPtr& router, const proto::StartPrefill& start);
  void OnCancel(const transport::ControlChannelPtr& router, const proto::Cancel& cancel);
  void OnPrefilled(const JobPtr& job);
  void OnShipped(AttemptId id, const absl::Status& status);
  std::shared_ptr<Shipment> MakeShipment(const Job& job, const proto::StartPrefill& start);

  absl::Status Enqueue(const Job& job, const proto::Enqueue& enqueue);
  // Takes from the queue what may go now and asks for its memory.
  void TakeFromQueue();
  std::vector<QueuedPrompt> NextBatch();
  void Take(QueuedPrompt prompt);
  void CancelJob(const JobPtr& job, const absl::Status& why, const char* stage);
  void SendDone(const Job& job, model::Finish finish);
  void EndJob(const JobPtr& job, const absl::Status& status, const char* stage);
  void ExpireDeadlines();

  const NodeOptions options_;
  const model::Model& model_;
  Metrics metrics_;
  worker::TransferMetrics transfers_;
  Gauges gauges_;
  kernels::Stream stream_;
  MemoryAccountant accountant_;
  PromptQueue queue_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<EngineThread> engine_thread_;
  std::unique_ptr<transport::DataPlane> data_;
  std::unordered_map<AttemptId, JobPtr> jobs_;  // io thread
};

}  // namespace anchorage::prefill
