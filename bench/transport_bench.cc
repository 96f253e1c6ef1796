// What the data planes cost for transfers of a layer's size over loopback, against a plain socket
// that carries the same bytes in the same run. Every link delivers a payload unchanged before it is
// timed; the links take turns, so that their ratios hold on a busy machine.
//
//   transport_bench [--kinds tcp,ucx] [--seconds S] [--check]
//
// With --check the program ends with status 1 when a plane takes more than twice as long as the
// plain socket, or carries less than half as much, at 1 MiB or more.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "bench/link.h"
#include "bench/machine_peak.h"
#include "bench/timing.h"
#include "common/aligned_buffer.h"
#include "common/flags.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "common/version.h"

ABSL_FLAG(std::vector<std::string>, kinds, (std::vector<std::string>{"tcp", "ucx"}),
          "data planes to measure: tcp, ucx");
ABSL_FLAG(double, seconds, 2, "time spent on each size, one at a time and again four at once");
ABSL_FLAG(bool, check, false, "end with status 1 when a plane falls short");

namespace anchorage::bench {
namespace {

// A transfer that is ahead of its link has so many in flight.
constexpr size_t kAtOnce = 4;
// Where a plane is held to the plain socket, and how far behind it may be.
constexpr size_t kCheckedBytes = size_t{1} << 20;
constexpr double kLargestRatio = 2;

struct Size {
  size_t bytes;
  const char* what;
};
constexpr Size kSizes[] = {
    {size_t{96} << 10, "a layer of SmolLM2-135M at 20x, up to 2,560 tokens"},
    {size_t{307} << 10, "the same at 8,192 tokens"},
    {size_t{1} << 20, ""},
    {size_t{6} << 20, "the same uncompressed; nearly Llama-3.1-8B at 20x, 32K tokens"},
    {size_t{16} << 20, ""},
};

struct NamedLink {
  std::string name;
  std::unique_ptr<Link> link;
};

// The plain socket comes first.
absl::StatusOr<std::vector<NamedLink>> MakeLinks() {
  std::vector<NamedLink> links;
  ASSIGN_OR_RETURN(std::unique_ptr<Link> plain, MakePlainSocketLink());
  links.push_back({"plain", std::move(plain)});
  for (const std::string& kind : absl::GetFlag(FLAGS_kinds)) {
    ASSIGN_OR_RETURN(std::unique_ptr<Link> plane, MakePlaneLink(kind));
    links.push_back({kind, std::move(plane)});
  }
  return links;
}

absl::Status CheckDelivery(const NamedLink& named, std::span<const std::byte> payload) {
  RETURN_IF_ERROR(Annotate(named.link->Carry(payload, 1), named.name));
  const std::span<const std::byte> arrived = named.link->arrived(payload.size());
  if (std::equal(payload.begin(), payload.end(), arrived.begin())) return absl::OkStatus();
  return DataLoss("%s: %d bytes did not arrive unchanged", named.name, payload.size());
}

absl::StatusOr<std::vector<Spread>> Time(const std::vector<NamedLink>& links,
                                         std::span<const std::byte> payload, size_t count) {
  absl::Status status;
  std::vector<std::function<void()>> works;
  for (const NamedLink& named : links) {
    works.push_back([&, link = named.link.get()] { status.Update(link->Carry(payload, count)); });
  }
  std::vector<Spread> spreads = MeasureInTurn(
      absl::GetFlag(FLAGS_seconds), [] {}, works);
  RETURN_IF_ERROR(status);
  return spreads;
}

// Prints a row for each link; whether every plane keeps up with the plain socket.
absl::StatusOr<bool> MeasureSize(const std::vector<NamedLink>& links,
                                 std::span<const std::byte> payload) {
  for (const NamedLink& named : links) RETURN_IF_ERROR(CheckDelivery(named, payload));
  ASSIGN_OR_RETURN(const std::vector<Spread> single, Time(links, payload, 1));
  ASSIGN_OR_RETURN(const std::vector<Spread> several, Time(links, payload, kAtOnce));
  bool good = true;
  for (size_t i = 0; i < links.size(); ++i) {
    const double slower = single[i].median_s / single[0].median_s;
    const double less = several[i].median_s / several[0].median_s;
    const double rate = static_cast<double>(kAtOnce * payload.size()) / several[i].median_s;
    const bool holds =
        payload.size() < kCheckedBytes || (slower <= kLargestRatio && less <= kLargestRatio);
    std::printf(
        "%8zu B  %-5s  p50 %8.1f us  p99 %8.1f us  %5.2fx  |  %zu at once %8.1f MB/s  "
        "%5.2fx%s\n",
        payload.size(), links[i].name.c_str(), single[i].median_s * 1e6, single[i].p99_s * 1e6,
        slower, kAtOnce, rate * 1e-6, 1 / less, holds ? "" : "  too slow");
    good = good && holds;
  }
  std::fflush(stdout);
  return good;
}

// Whether everything that was asked for holds.
absl::StatusOr<bool> Run() {
  std::printf("commit %s, %s, loopback, sender and receiver in one process\n", kCommit,
              ProcessorName().c_str());
  ASSIGN_OR_RETURN(const std::vector<NamedLink> links, MakeLinks());
  for (const NamedLink& named : links) std::printf("%s\n", named.link->Describe().c_str());
  for (const Size& size : kSizes) {
    if (*size.what != '\0') std::printf("%8zu B: %s\n", size.bytes, size.what);
  }
  std::printf("Ratios are to the plain socket: of time (left) and of bytes per second (right).\n");
  AlignedBuffer payload(kLinkMaxBytes);
  for (size_t i = 0; i < payload.size(); ++i) {
    payload.data()[i] = static_cast<std::byte>(i * 131 >> 3);
  }
  bool good = true;
  for (const Size& size : kSizes) {
    ASSIGN_OR_RETURN(const bool holds, MeasureSize(links, payload.span().first(size.bytes)));
    good = good && holds;
  }
  return good || !absl::GetFlag(FLAGS_check);
}

int Main(int argc, char** argv) {
  ParseFlags("transport_bench: what the data planes cost against a plain socket.", argc, argv);
  const absl::StatusOr<bool> good = Run();
  if (!good.ok()) {
    std::fprintf(stderr, "transport_bench: %s\n", std::string(good.status().message()).c_str());
    return 1;
  }
  return *good ? 0 : 1;
}

}  // namespace
}  // namespace anchorage::bench

int main(int argc, char** argv) { return anchorage::bench::Main(argc, argv); }
