// A worker node as its routers see it: start-up, handshake, the state that is pushed to them, drain
// and stop. What a prefill or decode node does with a request is in the class derived from it.
//
// The life of a node:
//
//   Start: StartWork -> routers may connect -> ready
//   Drain: not ready, DescribeState says so, new work is to be refused
//   Stop:  routers are told -> StopWork
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "proto/worker.pb.h"
#include "transport/control/channel.h"
#include "transport/data/data_plane.h"
#include "transport/event_loop.h"
#include "worker/program.h"

namespace anchorage::worker {

// All on the loop's thread, but for Live and Ready.
class ControlNode : public Node, public transport::ControlHandler {
 public:
  // Node
  absl::Status Start() final;
  absl::Status Ready() const final;
  void Drain() final;
  void Stop() final;  // idempotent

  // transport::ControlHandler
  absl::Status OnHello(const proto::Hello& hello) final;
  void OnUp(transport::ControlChannelPtr channel) final;
  void OnMessage(transport::ControlChannelPtr channel, proto::Envelope message) final;
  void OnDown(transport::ControlChannelPtr channel, absl::Status reason) final;

  std::string control_address() const { return control_->address(); }

 protected:
  // `role`: ROLE_PREFILL or ROLE_DECODE. `loop` must outlive the node.
  ControlNode(proto::Role role, const Settings& settings, proto::Identity identity,
              transport::EventLoop& loop);

  // The derived class's part. Its destructor must call Stop().
  //
  // Starts what serves requests; no router is connected yet.
  virtual absl::Status StartWork() = 0;
  // Ends it and joins its threads; no router will be heard any more. Also when StartWork failed or
  // was never called.
  virtual void StopWork() = 0;
  // Why the node should get no new work although it is neither starting nor draining.
  virtual absl::Status Healthy() const { return absl::OkStatus(); }
  // Fills in what is this node's own; `ready` and `draining` are set.
  virtual void DescribeState(proto::NodeState& state) const = 0;
  // False: not a message for this kind of node.
  virtual bool HandleMessage(const transport::ControlChannelPtr& router,
                             proto::Envelope& message) = 0;
  // Ends what this router asked for.
  virtual void OnRouterGone(const transport::ControlChannelPtr& router) = 0;

  // Proves that KV can travel over the interface that has the address `host`, then opens the data
  // plane: for StartWork. `options` without the token.
  absl::StatusOr<std::unique_ptr<transport::DataPlane>> OpenDataPlane(
      const std::string& host, transport::DataPlaneOptions options) const;

  const Settings& settings() const { return settings_; }
  const proto::Identity& identity() const { return identity_; }
  BootId boot() const { return boot_; }
  transport::EventLoop& loop() { return loop_; }
  bool started() const { return started_; }
  bool draining() const { return draining_; }
  bool stopping() const { return stopping_; }

 private:
  proto::Hello OwnHello() const;
  proto::Envelope StateMessage() const;
  // To every router: if it has changed, or in any case.
  void PushState(bool always);

  const proto::Role role_;
  const Settings settings_;
  const BootId boot_;
  const proto::Identity identity_;
  transport::EventLoop& loop_;
  std::unique_ptr<transport::ControlServer> control_;

  std::atomic<bool> started_{false};
  std::atomic<bool> draining_{false};
  std::atomic<bool> stopping_{false};
  std::unordered_set<transport::ControlChannelPtr> routers_;
  std::string last_state_;  // as it was pushed
};

}  // namespace anchorage::worker
