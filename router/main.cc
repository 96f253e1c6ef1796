// anchorage-router: the HTTP front door.
#include <utility>

#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "common/flags.h"
#include "common/ids.h"
#include "common/read_file.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "common/wire_version.h"
#include "kv/plan_flags.h"
#include "observe/host_port.h"
#include "observe/logging.h"
#include "observe/probes.h"
#include "observe/shared_metrics.h"
#include "router/dispatcher.h"
#include "router/drain.h"
#include "router/http_front.h"
#include "router/name_resolver.h"
#include "router/served_model.h"
#include "router/worker_discovery.h"
#include "transport/control/channel.h"
#include "transport/event_loop.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:8000", "host:port of the HTTP interface");
ABSL_FLAG(std::string, admin, "127.0.0.1:9000", "host:port of probes and metrics");
ABSL_FLAG(std::string, model, "", "GGUF file; only its metadata and tokenizer are read");
ABSL_FLAG(std::string, model_name, "", "what clients call the model; default: the file's name");
ABSL_FLAG(std::vector<std::string>, prefill, {},
          "host:port of the prefill nodes' control ports; a name is every address that it has");
ABSL_FLAG(std::vector<std::string>, decode, {},
          "host:port of the decode nodes' control ports; a name is every address that it has");
ABSL_FLAG(absl::Duration, resolve_interval, absl::Seconds(5),
          "pause between two looks at which addresses those names have");
ABSL_FLAG(int64_t, default_max_tokens, 1024, "new tokens where a request names no bound");
ABSL_FLAG(int64_t, queue_size, 256, "requests that may wait for memory and prefill");
ABSL_FLAG(absl::Duration, queue_timeout, absl::Seconds(30),
          "how long a request may wait before prefill begins");
ABSL_FLAG(absl::Duration, request_timeout, absl::Minutes(10), "how long a request may take in all");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(60),
          "how long running requests may go on after SIGTERM");
ABSL_FLAG(std::vector<std::string>, cors_origins, {},
          "origins of web pages that may use this service, such as https://chat.example.org, or *");
ABSL_FLAG(int64_t, max_body_bytes, 4 << 20, "longest request body");
ABSL_FLAG(std::string, token_file, "",
          "file with the secret that routers and nodes share; empty: none is asked for");
ABSL_FLAG(std::string, api_key_file, "",
          "file with the key that clients must send; empty: none is asked for");

namespace anchorage::router {
namespace {

constexpr int64_t kTickMs = 20;

absl::StatusOr<DispatcherOptions> DispatcherOptionsFromFlags() {
  DispatcherOptions options;
  options.queue_size = absl::GetFlag(FLAGS_queue_size);
  if (options.queue_size < 1) return Invalid("--queue-size must be at least 1");
  ASSIGN_OR_RETURN(options.queue_timeout_ms,
                   MillisecondsOf("--queue-timeout", absl::GetFlag(FLAGS_queue_timeout)));
  ASSIGN_OR_RETURN(options.request_timeout_ms,
                   MillisecondsOf("--request-timeout", absl::GetFlag(FLAGS_request_timeout)));
  options.boot_id = NewBootId();
  return options;
}

absl::Status CheckNames(const char* flag, const std::vector<std::string>& names) {
  if (names.empty()) return Invalid("%s names no node", flag);
  for (const std::string& name : names) {
    if (const absl::Status status = observe::ParseHostPort(name).status(); !status.ok()) {
      return Annotate(status, flag);
    }
  }
  return absl::OkStatus();
}

proto::Identity MakeIdentity(const ServedModel& model, const kv::PlanOptions& plan) {
  proto::Identity identity;
  identity.set_wire_version(kWireVersion);
  identity.set_plan_fingerprint(kv::PlanFingerprint(model.geometry(), plan));
  identity.set_model_name(model.name());
  identity.set_kv_mode(kv::DescribeKv(plan));
  return identity;
}

absl::Status Serve() {
  RETURN_IF_ERROR(observe::StartLogging("router"));
  if (absl::GetFlag(FLAGS_model).empty()) return Invalid("--model names no file");
  ASSIGN_OR_RETURN(const DispatcherOptions options, DispatcherOptionsFromFlags());
  ASSIGN_OR_RETURN(const int64_t drain_ms,
                   MillisecondsOf("--drain-timeout", absl::GetFlag(FLAGS_drain_timeout)));
  ASSIGN_OR_RETURN(const int64_t resolve_ms,
                   MillisecondsOf("--resolve-interval", absl::GetFlag(FLAGS_resolve_interval)));
  RETURN_IF_ERROR(CheckNames("--prefill", absl::GetFlag(FLAGS_prefill)));
  RETURN_IF_ERROR(CheckNames("--decode", absl::GetFlag(FLAGS_decode)));
  SpecLimits limits;
  ASSIGN_OR_RETURN(limits.plan, kv::PlanOptionsFromFlags(absl::GetFlag(FLAGS_model)));
  limits.default_max_tokens = absl::GetFlag(FLAGS_default_max_tokens);
  if (limits.default_max_tokens < 1) return Invalid("--default-max-tokens must be at least 1");
  HttpOptions http;
  http.listen = absl::GetFlag(FLAGS_listen);
  http.max_body_bytes = absl::GetFlag(FLAGS_max_body_bytes);
  if (http.max_body_bytes < 1) return Invalid("--max-body-bytes must be at least 1");
  absl::StatusOr<CorsPolicy> cors = CorsPolicy::Create(absl::GetFlag(FLAGS_cors_origins));
  if (!cors.ok()) return Annotate(cors.status(), "--cors-origins");
  http.cors = *std::move(cors);
  ASSIGN_OR_RETURN(http.api_key,
                   ReadSecretFile("--api-key-file", absl::GetFlag(FLAGS_api_key_file)));
  ASSIGN_OR_RETURN(const std::string token,
                   ReadSecretFile("--token-file", absl::GetFlag(FLAGS_token_file)));

  const std::string path = absl::GetFlag(FLAGS_model);
  absl::StatusOr<ServedModel> model = ServedModel::Load(path, absl::GetFlag(FLAGS_model_name));
  if (!model.ok()) return Annotate(model.status(), path);
  const std::string problem = kv::CheckPlan(model->geometry(), limits.plan, 1, 1);
  if (!problem.empty()) return Invalid("%s: %s", path, problem);

  observe::MetricsRegistry registry;
  observe::AddProcessMetrics(registry, "router",
                             {.kv_mode = kv::KvMode(limits.plan.layout),
                              .ratio = absl::StrFormat("%g", absl::GetFlag(FLAGS_ratio)),
                              .layout_version = std::to_string(kv::kLayoutVersion),
                              .transport = ""});
  RouterMetrics metrics(&registry, model->name());
  const proto::Identity identity = MakeIdentity(*model, limits.plan);
  Dispatcher dispatcher(options, identity, &model->tokenizer(), &Clock::Real(), &metrics);

  transport::EventLoop loop;
  ASSIGN_OR_RETURN(const auto probes, observe::ProbeServer::Start(
                                          {.listen = absl::GetFlag(FLAGS_admin)}, &registry,
                                          {.live = [&dispatcher] { return dispatcher.Live(); },
                                           .ready = [&dispatcher] { return dispatcher.Ready(); }}));
  ASSIGN_OR_RETURN(const auto front, HttpFront::Start(loop.io(), http, &*model, limits, &dispatcher,
                                                      &Clock::Real(), &metrics));
  proto::Hello hello;
  hello.set_role(proto::ROLE_ROUTER);
  hello.set_token(token);
  *hello.mutable_identity() = identity;
  hello.set_version(kVersion);
  hello.set_node_name("router");
  NameResolver resolver(loop.io());
  const auto resolve = [&resolver](const std::string& name, WorkerDiscovery::Resolved done) {
    resolver.Resolve(name, std::move(done));
  };
  const auto dial = [&](const std::string& address, transport::ControlHandler& handler) {
    return transport::DialControl(loop.io(), address, options.boot_id, hello,
                                  transport::ControlOptions(), handler);
  };
  WorkerDiscovery prefills("prefill", absl::GetFlag(FLAGS_prefill), resolve, dial,
                           &dispatcher.prefill_handler(), &metrics);
  WorkerDiscovery decodes("decode", absl::GetFlag(FLAGS_decode), resolve, dial,
                          &dispatcher.decode_handler(), &metrics);
  const auto discover = [&prefills, &decodes] {
    prefills.Refresh();
    decodes.Refresh();
  };
  discover();
  loop.Every(resolve_ms, discover);

  loop.Every(kTickMs, [&dispatcher] { dispatcher.Tick(); });
  const auto stop = [&] {
    front->Stop();
    prefills.Stop();
    decodes.Stop();
    loop.Stop();
  };
  Drain drain(&dispatcher, front.get(), &Clock::Real(), drain_ms);
  loop.OnSignals([&](int) {
    if (drain.begun()) return stop();  // asked twice
    drain.Begin();
    loop.Every(kTickMs, [&drain, &stop] {
      if (drain.Over()) stop();
    });
  });
  observe::LogInfo("", "serving %s on http://%s, probes and metrics on http://%s", model->name(),
                   front->address(), probes->address());
  loop.Run();
  observe::LogInfo("", "stopped");
  return absl::OkStatus();
}

}  // namespace
}  // namespace anchorage::router

int main(int argc, char** argv) {
  const auto rest = anchorage::ParseFlags(
      "anchorage-router: takes OpenAI requests over HTTP and carries each through a prefill and a "
      "decode node.\n\n"
      "  anchorage-router --model model.gguf --prefill 10.0.0.6:7000 --decode 10.0.0.7:7100",
      argc, argv);
  if (!rest.empty()) {
    anchorage::DieOfBadFlag(anchorage::Invalid("unexpected argument '%s'", rest.front()));
  }
  if (const absl::Status status = anchorage::router::Serve(); !status.ok()) {
    anchorage::DieOfBadFlag(status);
  }
  return 0;
}
