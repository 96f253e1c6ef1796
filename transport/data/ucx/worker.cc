#include "transport/data/ucx/worker.h"

#include <ifaddrs.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "observe/logging.h"
#include "transport/data/data_plane.h"
#include "transport/data/ucx/message.h"
#include "transport/data/ucx/socket_address.h"
#include "transport/data/ucx/ucs_status.h"

namespace anchorage::transport {
namespace {

// ------------------------------------------------------------------------------- UCX's own log

// While set, warnings of this thread are kept: that is how UCX tells of a setting that it ignores,
// when the context or the worker is made.
thread_local std::vector<std::string>* collected_warnings = nullptr;

class CollectedWarnings {
 public:
  CollectedWarnings() { collected_warnings = &warnings_; }
  ~CollectedWarnings() { collected_warnings = nullptr; }

  // FailedPrecondition with the first one.
  absl::Status status(std::string_view what) const {
    if (warnings_.empty()) return absl::OkStatus();
    return FailedPrecondition("%s: %s", what, warnings_.front());
  }

 private:
  std::vector<std::string> warnings_;
};

ucs_log_func_rc_t ForwardLog(const char* file, unsigned line, const char* function,
                             ucs_log_level_t level, const ucs_log_component_config_t* component,
                             const char* format, va_list arguments) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, arguments);
  if (level <= UCS_LOG_LEVEL_WARN) {
    if (collected_warnings != nullptr) collected_warnings->emplace_back(text);
    observe::LogWarning("", "ucx: %s", text);
  } else {
    observe::LogDebug("", "ucx: %s", text);
  }
  return UCS_LOG_FUNC_RC_STOP;
}

// What UCX settles when it is loaded: its log, and its handlers of fatal signals, which print a
// backtrace and can hang a process that should die at once.
void SettleProcess() {
  static std::once_flag once;
  std::call_once(once, [] {
    ucs_log_push_handler(ForwardLog);
    if (std::getenv("UCX_HANDLE_ERRORS") != nullptr) return;
    ucs_global_opts_set_value("HANDLE_ERRORS", "none");
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  });
}

// ----------------------------------------------------------------------------------- interfaces

// The name of the interface that has the address.
absl::StatusOr<std::string> InterfaceOf(const SocketAddress& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return Internal("listing the network interfaces failed");
  std::string name;
  for (const ifaddrs* entry = list; entry != nullptr && name.empty(); entry = entry->ifa_next) {
    if (address.SameHost(entry->ifa_addr)) name = entry->ifa_name;
  }
  freeifaddrs(list);
  if (name.empty()) {
    return FailedPrecondition("no network interface of this machine has the address %s",
                              address.ToString());
  }
  return name;
}

// --------------------------------------------------------------------------------------- config

// The operator's choice in the environment, or ours.
std::string FromEnvironment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

class Config {
 public:
  static absl::StatusOr<Config> Read() {
    ucp_config_t* config = nullptr;
    RETURN_IF_ERROR(StatusFromUcs(ucp_config_read(nullptr, nullptr, &config), "reading UCX_*"));
    return Config(config);
  }
  Config(Config&& other) noexcept : config_(std::exchange(other.config_, nullptr)) {}
  ~Config() {
    if (config_ != nullptr) ucp_config_release(config_);
  }

  absl::Status Set(const char* key, const std::string& value) {
    return StatusFromUcs(ucp_config_modify(config_, key, value.c_str()),
                         absl::StrFormat("setting UCX's %s to %s", key, value));
  }
  const ucp_config_t* get() const { return config_; }

 private:
  explicit Config(ucp_config_t* config) : config_(config) {}
  ucp_config_t* config_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(const std::string& interface_host) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker());
  RETURN_IF_ERROR(worker->Init(interface_host));
  return worker;
}

absl::Status UcxWorker::Init(const std::string& interface_host) {
  SettleProcess();
  std::string devices = "all";
  if (!interface_host.empty()) {
    ASSIGN_OR_RETURN(const SocketAddress address, ResolveHost({interface_host, 0}));
    if (!address.is_wildcard()) {
      ASSIGN_OR_RETURN(devices, InterfaceOf(address));
    }
  }
  devices = FromEnvironment("UCX_NET_DEVICES", devices);
  const std::string transports = FromEnvironment("UCX_TLS", "tcp");
  if (transports.find("tcp") == std::string::npos) {
    return FailedPrecondition("UCX_TLS=%s: tcp must be named, it makes the connections",
                              transports);
  }

  ASSIGN_OR_RETURN(Config config, Config::Read());
  RETURN_IF_ERROR(config.Set("TLS", transports));
  RETURN_IF_ERROR(config.Set("NET_DEVICES", devices));
  RETURN_IF_ERROR(config.Set("MAX_EAGER_RAILS", "1"));
  RETURN_IF_ERROR(config.Set("MAX_RNDV_RAILS", "1"));
  RETURN_IF_ERROR(config.Set("PROTO_ENABLE", "n"));
  RETURN_IF_ERROR(config.Set("CM_REUSEADDR", "y"));

  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;  // never RMA
  parameters.name = "anchorage";
  const CollectedWarnings warnings;
  const std::string what =
      absl::StrFormat("starting UCX with TLS=%s NET_DEVICES=%s", transports, devices);
  const ucs_status_t status = ucp_init(&parameters, config.get(), &context_);
  RETURN_IF_ERROR(warnings.status(what));
  RETURN_IF_ERROR(StatusFromUcs(status, what));

  ucp_worker_params_t worker_parameters{};
  worker_parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_parameters.thread_mode = UCS_THREAD_MODE_SINGLE;
  RETURN_IF_ERROR(
      StatusFromUcs(ucp_worker_create(context_, &worker_parameters, &worker_), "UCX worker"));
  RETURN_IF_ERROR(warnings.status(what));
  RETURN_IF_ERROR(StatusFromUcs(ucp_worker_get_efd(worker_, &event_fd_), "UCX event descriptor"));

  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  RETURN_IF_ERROR(StatusFromUcs(ucp_worker_query(worker_, &attributes), "UCX worker"));
  if (attributes.max_am_header < sizeof(TransferPrefix) + kMaxHeaderBytes) {
    return FailedPrecondition("UCX carries headers of %d bytes, %d are needed",
                              attributes.max_am_header, sizeof(TransferPrefix) + kMaxHeaderBytes);
  }
  description_ = absl::StrFormat("ucx %s, TLS=%s, NET_DEVICES=%s", ucp_get_version_string(),
                                 transports, devices);
  return absl::OkStatus();
}

void UcxWorker::SetHandler(unsigned id, ucp_am_recv_callback_t callback, void* self) {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = id;
  handler.cb = callback;
  handler.arg = self;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  ucp_worker_set_am_recv_handler(worker_, &handler);
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

}  // namespace anchorage::transport
