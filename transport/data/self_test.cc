#include <algorithm>
#include <future>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {
namespace {

constexpr size_t kPatternBytes = (1 << 20) + 13;  // a few pages and a rest
constexpr char kHeader[] = "anchorage self-test";

std::vector<std::byte> Pattern() {
  std::vector<std::byte> pattern(kPatternBytes);
  uint32_t state = 1;
  for (std::byte& byte : pattern) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return pattern;
}

// Takes one transfer and compares it with the pattern.
class PatternReceiver : public TransferReceiver {
 public:
  absl::StatusOr<Landing> OnAnnounce(std::span<const std::byte> header, size_t length) override {
    const auto* text = reinterpret_cast<const char*>(header.data());
    if (std::string(text, header.size()) != kHeader || length != kPatternBytes) {
      return Invalid("not the self-test's transfer");
    }
    return Landing{region_, 1};
  }

  void OnQuiet(uint64_t token, absl::Status landed, Reply reply) override {
    if (!landed.ok()) return;
    reply(region_ == Pattern() ? absl::OkStatus() : DataLoss("other bytes arrived than were sent"));
  }

 private:
  std::vector<std::byte> region_ = std::vector<std::byte>(kPatternBytes);
};

}  // namespace

absl::StatusOr<std::string> SelfTest(const std::string& kind, const std::string& host) {
  PatternReceiver receiver;
  DataPlaneOptions receiving;
  receiving.listen = host.find(':') == std::string::npos ? host + ":0" : "[" + host + "]:0";
  receiving.receiver = &receiver;
  DataPlaneOptions sending;
  sending.interface_host = host;
  ASSIGN_OR_RETURN(const std::unique_ptr<DataPlane> to, MakeDataPlane(kind, receiving));
  ASSIGN_OR_RETURN(const std::unique_ptr<DataPlane> from, MakeDataPlane(kind, sending));
  const std::vector<std::byte> pattern = Pattern();
  std::promise<absl::Status> result;
  from->Send(to->listen_address(), kHeader, pattern,
             [&result](absl::Status status) { result.set_value(std::move(status)); });
  RETURN_IF_ERROR(Annotate(result.get_future().get(), kind + " self-test over " + host));
  return from->Describe();
}

}  // namespace anchorage::transport
