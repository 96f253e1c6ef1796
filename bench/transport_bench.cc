// How fast the data plane carries layers between two planes of this process over loopback: every
// byte is compared once before anything is timed.
//   transport_bench [tcp|ucx ...]
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "bench/timing.h"
#include "common/aligned_buffer.h"
#include "common/version.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {
namespace {

constexpr size_t kSlots = 8;
constexpr size_t kMaxBytes = 16 << 20;
constexpr double kSeconds = 1.0;

// Takes everything into a few regions, used in turn; the sender has no more in flight.
class SlotReceiver : public TransferReceiver {
 public:
  absl::StatusOr<Landing> OnAnnounce(std::span<const std::byte>, size_t length) override {
    const uint64_t token = next_++;
    return Landing{slots_[token % kSlots].span().first(length), token};
  }
  void OnQuiet(uint64_t, absl::Status landed, Reply reply) override {
    if (landed.ok()) reply(absl::OkStatus());
  }
  std::span<const std::byte> last(size_t length) const {
    return slots_[(next_ - 1) % kSlots].span().first(length);
  }

 private:
  std::vector<AlignedBuffer> slots_ = MakeSlots();
  std::atomic<uint64_t> next_{0};

  static std::vector<AlignedBuffer> MakeSlots() {
    std::vector<AlignedBuffer> slots;
    for (size_t i = 0; i < kSlots; ++i) slots.emplace_back(kMaxBytes);
    return slots;
  }
};

struct Pair {
  SlotReceiver receiver;
  std::unique_ptr<DataPlane> to;
  std::unique_ptr<DataPlane> from;
};

absl::Status SendOne(Pair& pair, std::span<const std::byte> payload) {
  std::promise<absl::Status> result;
  pair.from->Send(pair.to->listen_address(), std::string(64, 'h'), payload,
                  [&result](absl::Status status) { result.set_value(std::move(status)); });
  return result.get_future().get();
}

// Four in flight, as a prefill node that is ahead of its link has them.
double BytesPerSecond(Pair& pair, std::span<const std::byte> payload, bool& ok) {
  constexpr size_t kInFlight = 4;
  const bench::Spread four = bench::Measure(
      kSeconds, [] {},
      [&] {
        std::vector<std::promise<absl::Status>> results(kInFlight);
        for (std::promise<absl::Status>& result : results) {
          pair.from->Send(pair.to->listen_address(), std::string(64, 'h'), payload,
                          [&result](absl::Status status) { result.set_value(std::move(status)); });
        }
        for (std::promise<absl::Status>& result : results) ok &= result.get_future().get().ok();
      });
  return static_cast<double>(kInFlight * payload.size()) / four.median_s;
}

int Run(const std::string& kind) {
  Pair pair;
  DataPlaneOptions receiving;
  receiving.listen = "127.0.0.1:0";
  receiving.receiver = &pair.receiver;
  DataPlaneOptions sending;
  sending.interface_host = "127.0.0.1";
  absl::StatusOr<std::unique_ptr<DataPlane>> to = MakeDataPlane(kind, receiving);
  absl::StatusOr<std::unique_ptr<DataPlane>> from = MakeDataPlane(kind, sending);
  if (!to.ok() || !from.ok()) {
    std::fprintf(stderr, "%s\n", (to.ok() ? from : to).status().ToString().c_str());
    return 1;
  }
  pair.to = *std::move(to);
  pair.from = *std::move(from);

  AlignedBuffer payload(kMaxBytes);
  for (size_t i = 0; i < kMaxBytes; ++i) payload.data()[i] = static_cast<std::byte>(i * 131 >> 3);
  for (const size_t bytes : {size_t{1} << 10, size_t{64} << 10, size_t{1} << 20, kMaxBytes}) {
    const std::span<const std::byte> part = payload.span().first(bytes);
    const absl::Status first = SendOne(pair, part);  // connects and warms up
    const std::span<const std::byte> arrived = pair.receiver.last(bytes);
    if (!first.ok() || !std::equal(part.begin(), part.end(), arrived.begin())) {
      std::fprintf(stderr, "%s: %zu bytes did not arrive unchanged\n", kind.c_str(), bytes);
      return 1;
    }
    bool ok = true;
    // One at a time: from Send to the verdict.
    const bench::Spread one = bench::Measure(
        kSeconds, [] {}, [&] { ok &= SendOne(pair, part).ok(); });
    const double rate = BytesPerSecond(pair, part, ok);
    if (!ok) return 1;
    std::printf("%-4s %9zu B  p50 %8.1f us  p99 %8.1f us  %8.1f MB/s\n", kind.c_str(), bytes,
                one.median_s * 1e6, one.p99_s * 1e6, rate * 1e-6);
  }
  std::printf("%s\n", pair.from->Describe().c_str());
  return 0;
}

}  // namespace
}  // namespace anchorage::transport

int main(int argc, char** argv) {
  std::vector<std::string> kinds(argv + 1, argv + argc);
  if (kinds.empty()) kinds = {"tcp", "ucx"};
  std::printf("commit %s, loopback, two planes in one process\n", anchorage::kCommit);
  int failed = 0;
  for (const std::string& kind : kinds) failed |= anchorage::transport::Run(kind);
  return failed;
}
