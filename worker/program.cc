#include "worker/program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/flags.h"
#include "common/read_file.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "kv/plan_flags.h"
#include "observe/host_port.h"
#include "observe/logging.h"
#include "text/tokenizer.h"

ABSL_FLAG(std::string, control, "127.0.0.1:0", "host:port on which routers connect");
ABSL_FLAG(std::string, admin, "127.0.0.1:0",
          "host:port of /live, /ready, /health, /version and /metrics");
ABSL_FLAG(std::string, model, "", "model file (GGUF); required");
ABSL_FLAG(std::string, transport, "ucx", "how KV travels: ucx (RDMA where there is one), or tcp");
ABSL_FLAG(int, threads, 0, "CPU threads of the engine; 0: one for each core");
ABSL_FLAG(std::string, token_file, "",
          "file with the secret that routers and nodes share; empty: none is asked for");
ABSL_FLAG(std::string, node_name, "", "name in logs and metrics; empty: the host's name");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "how long running requests may go on after SIGTERM");

namespace anchorage::worker {
namespace {

constexpr int64_t kDrainPollMs = 20;

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

absl::StatusOr<Settings> CheckFlags(const char* role) {
  Settings settings;
  settings.role = role;
  settings.control = absl::GetFlag(FLAGS_control);
  settings.admin = absl::GetFlag(FLAGS_admin);
  for (const auto& [flag, value] :
       {std::pair("--control", settings.control), std::pair("--admin", settings.admin)}) {
    RETURN_IF_ERROR(Annotate(observe::ParseHostPort(value).status(), flag));
  }
  settings.model_path = absl::GetFlag(FLAGS_model);
  if (settings.model_path.empty()) return Invalid("--model is required: the path of a GGUF file");
  settings.transport = absl::GetFlag(FLAGS_transport);
  if (settings.transport != "ucx" && settings.transport != "tcp") {
    return Invalid("--transport: '%s' is neither ucx nor tcp", settings.transport);
  }
  const int threads = absl::GetFlag(FLAGS_threads);
  if (threads < 0 || threads > 1024) return Invalid("--threads: %d is not in 0..1024", threads);
  settings.threads =
      threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  ASSIGN_OR_RETURN(settings.token, ReadSecretFile("--token-file", absl::GetFlag(FLAGS_token_file)));
  settings.node_name = absl::GetFlag(FLAGS_node_name);
  if (settings.node_name.empty()) settings.node_name = HostName();
  ASSIGN_OR_RETURN(settings.drain_timeout_ms,
                   MillisecondsOf("--drain-timeout", absl::GetFlag(FLAGS_drain_timeout)));
  ASSIGN_OR_RETURN(settings.plan, kv::PlanOptionsFromFlags(absl::GetFlag(FLAGS_model)));
  RETURN_IF_ERROR(observe::StartLogging(role));
  return settings;
}

// SIGTERM: drain, then stop; asked again, stop at once.
class Shutdown {
 public:
  Shutdown(const Settings& settings, transport::EventLoop& loop, Node& node)
      : settings_(settings), loop_(loop), node_(node) {}

  void OnSignal(int signal) {
    if (std::exchange(draining_, true)) return Finish("asked twice");
    observe::LogInfo("", "signal %d: draining for at most %d ms", signal,
                     settings_.drain_timeout_ms);
    node_.Drain();
    deadline_ns_ = Clock::Real().NowNs() + settings_.drain_timeout_ms * 1'000'000;
    loop_.Every(kDrainPollMs, [this] {
      if (node_.Idle()) return Finish("drained");
      if (Clock::Real().NowNs() >= deadline_ns_) Finish("the drain timeout is over");
    });
  }

 private:
  void Finish(const char* why) {
    if (std::exchange(finished_, true)) return;
    observe::LogInfo("", "stopping: %s", why);
    node_.Stop();
    loop_.Stop();
  }

  const Settings& settings_;
  transport::EventLoop& loop_;
  Node& node_;
  bool draining_ = false;
  bool finished_ = false;
  int64_t deadline_ns_ = 0;
};

}  // namespace

Settings SettingsFromFlags(const char* role, const char* usage, int argc, char** argv) {
  const std::vector<std::string> rest = ParseFlags(usage, argc, argv);
  if (!rest.empty()) DieOfBadFlag(Invalid("'%s' is not a flag: see --help", rest.front()));
  absl::StatusOr<Settings> settings = CheckFlags(role);
  if (!settings.ok()) DieOfBadFlag(settings.status());
  return *std::move(settings);
}

observe::ConfigInfo ConfigInfoOf(const Settings& settings) {
  const bool compressed = settings.plan.layout != kv::Layout::kDense;
  return {.kv_mode = kv::KvMode(settings.plan.layout),
          .ratio = compressed
                       ? absl::StrFormat("%g", 1e6 / static_cast<double>(settings.plan.theta_ppm))
                       : "1",
          .layout_version = absl::StrFormat("%d", kv::kLayoutVersion),
          .transport = settings.transport};
}

absl::StatusOr<LoadedModel> LoadModel(const std::string& path) {
  LoadedModel loaded;
  ASSIGN_OR_RETURN(loaded.model, model::Model::Load(path));
  ASSIGN_OR_RETURN(const text::Tokenizer tokenizer,
                   text::Tokenizer::FromGguf(loaded.model->file()));
  loaded.stop_ids.assign(tokenizer.stop_ids().begin(), tokenizer.stop_ids().end());
  return loaded;
}

int RunNode(const Settings& settings, transport::EventLoop& loop,
            const observe::MetricsRegistry& registry, Node& node) {
  Shutdown shutdown(settings, loop, node);
  loop.OnSignals([&](int signal) { shutdown.OnSignal(signal); });
  if (const absl::Status started = node.Start(); !started.ok()) return Fail(started);
  const auto probes = observe::ProbeServer::Start(
      {.listen = settings.admin}, &registry,
      {.live = [&node] { return node.Live(); }, .ready = [&node] { return node.Ready(); }});
  if (!probes.ok()) {
    node.Stop();
    return Fail(probes.status());
  }
  observe::LogInfo("", "probes and metrics on %s", (*probes)->address());
  loop.Run();
  node.Stop();
  observe::LogInfo("", "stopped");
  return 0;
}

int Fail(const absl::Status& status) {
  observe::LogError("", "%s", std::string(status.message()));
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace anchorage::worker
