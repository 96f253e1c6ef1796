// A control channel that keeps what is sent, and a sink that keeps what comes out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/worker.pb.h"
#include "router/response_sink.h"
#include "transport/control/channel.h"

namespace anchorage::router {

class FakeChannel : public transport::ControlChannel {
 public:
  FakeChannel(proto::Role role, std::string address, uint64_t model = 77)
      : address_(std::move(address)) {
    hello_.set_role(role);
    hello_.mutable_identity()->set_wire_version(1);
    hello_.mutable_identity()->set_model_fingerprint(model);
    hello_.mutable_identity()->set_plan_fingerprint(88);
  }
  const proto::Hello& peer() const override { return hello_; }
  uint64_t peer_boot() const override { return 5; }
  const std::string& peer_address() const override { return address_; }
  bool open() const override { return open_; }
  void Send(proto::Envelope message) override {
    if (open_) sent.push_back(std::move(message));
  }
  void Close(absl::Status) override { open_ = false; }

  // The only message, or the oldest that was not taken yet.
  std::optional<proto::Envelope> Take() {
    if (sent.empty()) return std::nullopt;
    proto::Envelope first = std::move(sent.front());
    sent.erase(sent.begin());
    return first;
  }

  std::vector<proto::Envelope> sent;

 private:
  proto::Hello hello_;
  std::string address_;
  bool open_ = true;
};

class RecordingSink : public ResponseSink {
 public:
  void OnTokens(std::span<const int32_t> more_ids, std::string_view more) override {
    ids.insert(ids.end(), more_ids.begin(), more_ids.end());
    text += more;
    ++calls;
  }
  void OnEnd(const Outcome& ended) override {
    outcome = ended;
    ++ends;
  }
  std::vector<int32_t> ids;
  std::string text;
  int calls = 0;
  int ends = 0;
  std::optional<Outcome> outcome;
};

}  // namespace anchorage::router
