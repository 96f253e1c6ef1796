// What the two worker programs have in common around their engines: flags, start-up, probes,
// signals, drain.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kv/plan/plan.h"
#include "model/model.h"
#include "observe/metrics.h"
#include "observe/probes.h"
#include "observe/shared_metrics.h"
#include "transport/event_loop.h"

namespace anchorage::worker {

// The flags --control --admin --model --transport --threads --token-file --node-name
// --drain-timeout and those of the plan, checked.
struct Settings {
  std::string role;     // "prefill" or "decode"
  std::string control;  // host:port of the control channel
  std::string admin;    // host:port of probes and metrics
  std::string model_path;
  std::string transport;  // "ucx" or "tcp"
  std::string token;      // shared secret; empty: none
  std::string node_name;
  int threads = 1;
  int64_t drain_timeout_ms = 30'000;
  kv::PlanOptions plan;
};

// What the metrics say of these settings.
observe::ConfigInfo ConfigInfoOf(const Settings& settings);

// Parses the command line, starts logging. Exits with a sentence on a bad flag.
Settings SettingsFromFlags(const char* role, const char* usage, int argc, char** argv);

// A loaded model and what goes with it.
struct LoadedModel {
  std::unique_ptr<const model::Model> model;
  std::vector<int32_t> stop_ids;  // the model's own, from its tokenizer
};
absl::StatusOr<LoadedModel> LoadModel(const std::string& path);

// A prefill or decode node, as the program around it sees it. All calls on the loop's thread, but
// for Live and Ready, which probes call from theirs.
class Node {
 public:
  virtual ~Node() = default;
  // Listens; then the printed addresses are real.
  virtual absl::Status Start() = 0;
  virtual absl::Status Live() const = 0;
  virtual absl::Status Ready() const = 0;
  // Refuses new work from now on; what runs goes on.
  virtual void Drain() = 0;
  virtual bool Idle() const = 0;
  // Ends everything and joins every thread.
  virtual void Stop() = 0;
};

// Serves until SIGTERM or SIGINT, then drains for at most the drain timeout (a second signal ends
// that) and stops. Returns the process's exit status.
int RunNode(const Settings& settings, transport::EventLoop& loop,
            const observe::MetricsRegistry& registry, Node& node);

// Prints the error and returns the exit status that goes with it.
int Fail(const absl::Status& status);

}  // namespace anchorage::worker
