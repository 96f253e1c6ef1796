#include "worker/control_node.h"

#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/logging.h"
#include "worker/wire.h"

namespace anchorage::worker {
namespace {

constexpr int64_t kStatePushMs = 20;
constexpr int64_t kStateRefreshMs = 1'000;

}  // namespace

ControlNode::ControlNode(proto::Role role, const Settings& settings, proto::Identity identity,
                         transport::EventLoop& loop)
    : role_(role),
      settings_(settings),
      boot_(NewBootId()),
      identity_(std::move(identity)),
      loop_(loop) {}

proto::Hello ControlNode::OwnHello() const {
  proto::Hello hello;
  hello.set_role(role_);
  hello.set_token(settings_.token);
  *hello.mutable_identity() = identity_;
  hello.set_node_name(settings_.node_name);
  hello.set_transport(settings_.transport);
  return hello;
}

absl::Status ControlNode::Start() {
  RETURN_IF_ERROR(StartWork());
  ASSIGN_OR_RETURN(control_, transport::ListenControl(loop_.io(), settings_.control, boot_,
                                                      OwnHello(), {}, *this));
  loop_.Every(kStatePushMs, [this] { PushState(/*always=*/false); });
  loop_.Every(kStateRefreshMs, [this] { PushState(/*always=*/true); });
  started_ = true;
  observe::LogInfo("", "%s node '%s': control %s, KV over %s, %s", settings_.role,
                   settings_.node_name, control_->address(), settings_.transport,
                   identity_.kv_mode());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<transport::DataPlane>> ControlNode::OpenDataPlane(
    const std::string& host, transport::DataPlaneOptions options) const {
  ASSIGN_OR_RETURN(const std::string lanes, transport::SelfTest(settings_.transport, host));
  observe::LogInfo("", "self-test of %s passed: %s", settings_.transport, lanes);
  options.auth_token = settings_.token;
  return transport::MakeDataPlane(settings_.transport, options);
}

absl::Status ControlNode::Ready() const {
  if (!started_) return Unavailable("starting");
  if (draining_) return Unavailable("draining");
  RETURN_IF_ERROR(Healthy());
  return Live();
}

void ControlNode::Drain() {
  draining_ = true;
  PushState(/*always=*/true);
}

void ControlNode::Stop() {
  if (stopping_.exchange(true)) return;
  if (control_ != nullptr) control_->Stop();
  StopWork();
}

absl::Status ControlNode::OnHello(const proto::Hello& hello) {
  return CheckRouterHello(identity_, hello);
}

void ControlNode::OnUp(transport::ControlChannelPtr channel) {
  observe::LogInfo("", "router '%s' connected from %s", channel->peer().node_name(),
                   channel->peer_address());
  channel->Send(StateMessage());
  routers_.insert(std::move(channel));
}

void ControlNode::OnMessage(transport::ControlChannelPtr channel, proto::Envelope message) {
  if (HandleMessage(channel, message)) return;
  observe::LogWarning("", "router '%s' sent a message that a %s node has no use for",
                      channel->peer().node_name(), settings_.role);
}

void ControlNode::OnDown(transport::ControlChannelPtr channel, absl::Status reason) {
  observe::LogWarning("", "router '%s' is gone: %s", channel->peer().node_name(),
                      std::string(reason.message()));
  routers_.erase(channel);
  OnRouterGone(channel);
}

proto::Envelope ControlNode::StateMessage() const {
  proto::Envelope message;
  proto::NodeState& state = *message.mutable_state();
  state.set_ready(Ready().ok());
  state.set_draining(draining_);
  DescribeState(state);
  return message;
}

void ControlNode::PushState(bool always) {
  const proto::Envelope message = StateMessage();
  std::string bytes = message.SerializeAsString();
  if (!always && bytes == last_state_) return;
  last_state_ = std::move(bytes);
  for (const auto& router : routers_) router->Send(message);
}

}  // namespace anchorage::worker
