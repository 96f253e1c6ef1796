// A process that is killed by tests: one end of a data plane.
//   transport_peer receive KIND           prints its address, takes everything
//   transport_peer send KIND ADDRESS      sends long transfers for ever
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/transport/recording_receiver.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {
namespace {

constexpr size_t kLongBytes = (kSanitized ? 16 : 64) << 20;

int Receive(const std::string& kind) {
  RecordingReceiver receiver;
  DataPlaneOptions options;
  options.listen = "127.0.0.1:0";
  options.receiver = &receiver;
  const auto plane = MakeDataPlane(kind, options);
  if (!plane.ok()) return 1;
  std::printf("%s\n", (*plane)->listen_address().c_str());
  std::fflush(stdout);
  while (true) {
    usleep(1'000);
    receiver.Forget();
  }
}

int Send(const std::string& kind, const std::string& address) {
  DataPlaneOptions options;
  options.interface_host = "127.0.0.1";
  const auto plane = MakeDataPlane(kind, options);
  if (!plane.ok()) return 1;
  const std::vector<std::byte> payload = Pattern(kLongBytes);
  while (true) {
    SendResult result;
    (*plane)->Send(address, "x", payload, result.Callback());
    if (const absl::Status status = result.Wait(); !status.ok()) usleep(1'000);
  }
}

}  // namespace
}  // namespace anchorage::transport

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "receive") return anchorage::transport::Receive(argv[2]);
  if (mode == "send" && argc > 3) return anchorage::transport::Send(argv[2], argv[3]);
  std::fprintf(stderr, "usage: see the top of the file\n");
  return 2;
}
