// Whether an entropy coder on the wire would pay: what zstd at level 1 makes of a prompt's cache,
// what any order-0 coder could, and the link speed below which the bytes saved outweigh the time.
//
//   wire_coder_bench --model FILE [--tokens 4096] [--ratio 20] [--kv-profile auto] [--check]
//
// Two ways to code: each layer whole, as it lies in memory; and, in the coder's favour, only the
// parts that shrink by a tenth or more, known beforehand, the bytes of wide elements apart. One
// thread; all layers come back unchanged before they are timed. With --check the program ends with
// status 1 when either way keeps up with a link of 10 Gb/s, so that it could pay there, or when an
// order-0 coder could save a quarter.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "bench/own_prompt.h"
#include "bench/region_coder.h"
#include "bench/setting.h"
#include "bench/threads.h"
#include "bench/timing.h"
#include "bench/wire_survey.h"
#include "common/aligned_buffer.h"
#include "common/clock.h"
#include "common/flags.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "kv/layer_sink.h"
#include "kv/plan_flags.h"
#include "prefill_node/core/accountant.h"
#include "prefill_node/core/engine.h"

ABSL_FLAG(std::string, model, "", "model file (GGUF)");
ABSL_FLAG(std::string, text, "code", "kind of text: code, prose, scripts");
ABSL_FLAG(int, tokens, 4096, "length of the prompt");
ABSL_FLAG(int, threads, 0, "CPU threads of the prefill; 0: one for each core");
ABSL_FLAG(double, seconds, 5, "time spent on coding and decoding, in turn");
ABSL_FLAG(std::string, root, ".", "top folder of the sources, where the text comes from");
ABSL_FLAG(bool, check, false, "end with status 1 when a coder pays after all");

namespace anchorage::bench {
namespace {

constexpr double kCheckedGbps = 10;
constexpr double kCheckedSaving = 0.25;  // of an order-0 coder
constexpr double kWorthCoding = 0.9;     // of its bytes: what a part must shrink to

// A way to code, and what it came to.
struct Way {
  const char* name = "";
  std::vector<std::vector<Part>> parts;  // of each layer; the rest travels as it is
  std::vector<CodedParts> coded;
  std::vector<AlignedBuffer> landed;
  int64_t bytes = 0;  // on the wire
  double code_s = 0;
  double decode_s = 0;
};

// Where nothing overlaps: the link speed at which the time for the bytes saved is that of coding
// and decoding. `total`: bytes without a coder.
double PaysBelowGbps(const Way& way, int64_t total) {
  return 8e-9 * static_cast<double>(total - way.bytes) / (way.code_s + way.decode_s);
}

// Where coding, sending and decoding run side by side: the link speed from which on the bytes
// arrive sooner without a coder.
double InStepGbps(const Way& way, int64_t total) {
  return 8e-9 * static_cast<double>(total) / std::max(way.code_s, way.decode_s);
}

class KeepLayers : public kv::LayerSink {
 public:
  absl::Status OnLayer(int layer, kv::CompressedLayer&& cache) override {
    if (cache.plan.layout != kv::Layout::kCompact) {
      return Invalid("--tokens: too short to compress");
    }
    layers.push_back(std::move(cache));
    return absl::OkStatus();
  }
  std::vector<kv::CompressedLayer> layers;
};
using Layers = std::vector<kv::CompressedLayer>;

absl::StatusOr<Layers> Prefill(const model::Model& model, const kv::PlanOptions& plan,
                               kernels::Stream& stream) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> prompt_ids,
                   OwnPrompt(model, absl::GetFlag(FLAGS_text), absl::GetFlag(FLAGS_root),
                             absl::GetFlag(FLAGS_tokens)));
  prefill::EngineOptions options;
  options.plan = plan;
  prefill::MemoryAccountant accountant;
  ASSIGN_OR_RETURN(const std::unique_ptr<prefill::Engine> engine,
                   prefill::Engine::Create(model, options, accountant, Clock::Real(), stream));
  KeepLayers sink;
  prefill::PrefillRequest request;
  request.prompt_ids = prompt_ids;
  request.sink = &sink;
  RETURN_IF_ERROR(engine->Run({&request, 1}).front().status);
  for (kv::CompressedLayer& layer : sink.layers) layer.charge.reset();  // outlive the accountant
  return std::move(sink.layers);
}

std::vector<Way> MakeWays(const Layers& layers, const WireSurvey& survey) {
  std::vector<Way> ways(2);
  ways[0].name = "zstd -1, each layer whole";
  ways[1].name = "zstd -1, only what shrinks";
  for (const kv::CompressedLayer& layer : layers) {
    ways[0].parts.push_back({Part{0, layer.plan.region_bytes, 1}});
    ways[1].parts.push_back(survey.PartsThatShrink(layer.plan, kWorthCoding));
  }
  return ways;
}

// Codes and decodes every layer; fails unless all bytes come back. Counts what would travel.
absl::Status RoundTrip(const Layers& layers, RegionCoder& coder, Way& way) {
  way.coded.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::span<const std::byte> region = layers[i].region.span();
    RETURN_IF_ERROR(coder.Code(region, way.parts[i], way.coded[i]));
    way.bytes += layers[i].plan.region_bytes;
    AlignedBuffer back(region.size());
    std::copy(region.begin(), region.end(), back.data());
    for (size_t p = 0; p < way.parts[i].size(); ++p) {
      const Part& part = way.parts[i][p];
      way.bytes += static_cast<int64_t>(way.coded[i].frames[p]) - part.count;
      for (int64_t b = 0; b < part.count; ++b) back.data()[part.offset + b * part.stride] = {};
    }
    RETURN_IF_ERROR(coder.Decode(way.coded[i], way.parts[i], back.span()));
    if (!std::equal(region.begin(), region.end(), back.data())) {
      return DataLoss("%s: layer %d did not come back unchanged", way.name, i);
    }
    way.landed.push_back(std::move(back));
  }
  return absl::OkStatus();
}

absl::Status Time(const Layers& layers, RegionCoder& coder, std::vector<Way>& ways) {
  absl::Status status;
  std::vector<std::function<void()>> works;
  for (Way& way : ways) {
    works.push_back([&] {
      for (size_t i = 0; i < layers.size(); ++i) {
        status.Update(coder.Code(layers[i].region.span(), way.parts[i], way.coded[i]));
      }
    });
    works.push_back([&] {
      for (size_t i = 0; i < layers.size(); ++i) {
        status.Update(coder.Decode(way.coded[i], way.parts[i], way.landed[i].span()));
      }
    });
  }
  const std::vector<Spread> spreads = MeasureInTurn(
      absl::GetFlag(FLAGS_seconds), [] {}, works);
  for (size_t i = 0; i < ways.size(); ++i) {
    ways[i].code_s = spreads[2 * i].median_s;
    ways[i].decode_s = spreads[2 * i + 1].median_s;
  }
  return status;
}

void PrintGroups(const std::vector<WireGroup>& groups, int64_t total) {
  std::printf("| part | bytes | share | order-0 bound | zstd -1 | zstd -1, bytes apart |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const WireGroup& group : groups) {
    std::printf("| %s | %lld | %.1f %% | %.0f | %lld | %lld |\n", group.name,
                static_cast<long long>(group.bytes),
                100 * static_cast<double>(group.bytes) / static_cast<double>(total),
                group.order_zero_bytes, static_cast<long long>(group.zstd_bytes),
                static_cast<long long>(group.lanes_bytes));
  }
}

void PrintWays(const std::vector<Way>& ways, int64_t total, double order_zero_bytes) {
  std::printf("\n| the whole cache | bytes | saved | code, ms | decode, ms ");
  std::printf(
      "| pays below, one after the other | in step up to |\n|---|---|---|---|---|---|---|\n");
  std::printf("| as it travels | %lld | - | - | - | - | - |\n", static_cast<long long>(total));
  for (const Way& way : ways) {
    std::printf("| %s | %lld | %.1f %% | %.2f | %.2f | %.2f Gb/s | %.1f Gb/s |\n", way.name,
                static_cast<long long>(way.bytes),
                100 * (1 - static_cast<double>(way.bytes) / static_cast<double>(total)),
                way.code_s * 1e3, way.decode_s * 1e3, PaysBelowGbps(way, total),
                InStepGbps(way, total));
  }
  std::printf("| order-0 bound | %.0f | %.1f %% | - | - | - | - |\n", order_zero_bytes,
              100 * (1 - order_zero_bytes / static_cast<double>(total)));
}

bool Check(const std::vector<Way>& ways, int64_t total, double order_zero_bytes) {
  bool good = true;
  for (const Way& way : ways) {
    if (InStepGbps(way, total) < kCheckedGbps) continue;
    std::fprintf(stderr, "check failed: %s keeps up with %g Gb/s\n", way.name, kCheckedGbps);
    good = false;
  }
  if (order_zero_bytes < (1 - kCheckedSaving) * static_cast<double>(total)) {
    std::fprintf(stderr, "check failed: an order-0 coder could save more than %.0f %%\n",
                 100 * kCheckedSaving);
    good = false;
  }
  return good;
}

// Whether everything that was asked for holds.
absl::StatusOr<bool> Run() {
  const std::string path = absl::GetFlag(FLAGS_model);
  ASSIGN_OR_RETURN(const std::unique_ptr<const model::Model> model, model::Model::Load(path));
  ASSIGN_OR_RETURN(const kv::PlanOptions plan, kv::PlanOptionsFromFlags(path));
  kernels::Stream stream(ThreadsOrAll(absl::GetFlag(FLAGS_threads)));
  std::printf("%s; %d tokens of %s, %s\n\n", Setting(*model, stream.num_threads()).c_str(),
              absl::GetFlag(FLAGS_tokens), absl::GetFlag(FLAGS_text).c_str(),
              kv::DescribeKv(plan).c_str());
  ASSIGN_OR_RETURN(const Layers layers, Prefill(*model, plan, stream));
  RegionCoder coder;
  WireSurvey survey;
  for (const kv::CompressedLayer& layer : layers) RETURN_IF_ERROR(survey.Add(layer, coder));
  int64_t total = 0;
  double order_zero_bytes = 0;
  for (const WireGroup& group : survey.groups()) {
    total += group.bytes;
    order_zero_bytes += group.order_zero_bytes;
  }
  std::vector<Way> ways = MakeWays(layers, survey);
  for (Way& way : ways) RETURN_IF_ERROR(RoundTrip(layers, coder, way));
  RETURN_IF_ERROR(Time(layers, coder, ways));
  PrintGroups(survey.groups(), total);
  PrintWays(ways, total, order_zero_bytes);
  return !absl::GetFlag(FLAGS_check) || Check(ways, total, order_zero_bytes);
}

int Main(int argc, char** argv) {
  ParseFlags(
      "wire_coder_bench: whether an entropy coder on the wire would pay.", argc, argv,
      {"model", "text", "tokens", "ratio", "kv_profile", "threads", "seconds", "root", "check"});
  if (absl::GetFlag(FLAGS_model).empty()) DieOfBadFlag(Invalid("--model is missing"));
  const absl::StatusOr<bool> good = Run();
  if (!good.ok()) {
    std::fprintf(stderr, "wire_coder_bench: %s\n", std::string(good.status().message()).c_str());
    return 1;
  }
  return *good ? 0 : 1;
}

}  // namespace
}  // namespace anchorage::bench

int main(int argc, char** argv) { return anchorage::bench::Main(argc, argv); }
