// The router's end of a control channel, for tests of a node: keeps what the node sends.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "proto/worker.pb.h"
#include "transport/control/channel.h"

namespace anchorage::testing {

class RouterChannel : public transport::ControlChannel {
 public:
  const proto::Hello& peer() const override { return hello_; }
  uint64_t peer_boot() const override { return 1; }
  const std::string& peer_address() const override { return address_; }
  bool open() const override { return true; }
  void Send(proto::Envelope message) override {
    sent.push_back(std::move(message));
    if (on_sent) on_sent(sent.back());
  }
  void Close(absl::Status) override {}

  std::vector<proto::Envelope> sent;
  std::function<void(const proto::Envelope&)> on_sent;  // after it was kept

 private:
  const proto::Hello hello_;
  const std::string address_ = "router:1";
};

}  // namespace anchorage::testing
