// What a prefill holds in memory under each schedule: the same prompt through an engine of its own
// each time, peaks by component as the engine's accountant saw them.
//
//   residency_bench --model FILE [--tokens 6000] [--chunk 2048] [--threads N] [--check]
//
// Layers are dropped the moment they are handed over. All schedules must pick the same first token.
// With --check the program ends with status 1 unless layer-major keeps the K and V of exactly one
// layer and has the smallest transient peak.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "bench/own_prompt.h"
#include "bench/setting.h"
#include "bench/threads.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/flags.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "model/prefill_layer.h"
#include "prefill_node/core/accountant.h"
#include "prefill_node/core/engine.h"

ABSL_FLAG(std::string, model, "", "model file (GGUF)");
ABSL_FLAG(std::string, text, "code", "kind of text: code, prose, scripts");
ABSL_FLAG(int, tokens, 6000, "length of the prompt");
ABSL_FLAG(int, chunk, 2048, "tokens of a chunk");
ABSL_FLAG(int, threads, 0, "CPU threads; 0: one for each core");
ABSL_FLAG(std::string, root, ".", "top folder of the sources, where the text comes from");
ABSL_FLAG(bool, check, false, "end with status 1 when layer-major falls short");

namespace anchorage::bench {
namespace {

using prefill::Component;
using prefill::MemoryUse;
using prefill::Schedule;

constexpr Schedule kSchedules[] = {Schedule::kLayerMajor, Schedule::kChunkMajor,
                                   Schedule::kOneShot};

struct Outcome {
  Schedule schedule;
  MemoryUse peak;
  int32_t first_token = 0;
  double seconds = 0;
};

absl::StatusOr<Outcome> Measure(const model::Model& model, Schedule schedule,
                                std::span<const int32_t> prompt_ids, kernels::Stream& stream) {
  prefill::EngineOptions options;
  options.schedule = schedule;
  options.chunk_tokens = absl::GetFlag(FLAGS_chunk);
  prefill::MemoryAccountant accountant;
  ASSIGN_OR_RETURN(const std::unique_ptr<prefill::Engine> engine,
                   prefill::Engine::Create(model, options, accountant, Clock::Real(), stream));
  prefill::PrefillRequest request;
  request.prompt_ids = prompt_ids;
  const std::vector<prefill::PrefillResult> results = engine->Run({&request, 1});
  RETURN_IF_ERROR(results.front().status);
  return Outcome{schedule, accountant.peak(), results.front().first_token,
                 static_cast<double>(results.front().total_ns) * 1e-9};
}

void PrintTable(const std::vector<Outcome>& outcomes) {
  std::printf("| peak bytes |");
  for (const Outcome& outcome : outcomes) std::printf(" %s |", ScheduleName(outcome.schedule));
  std::printf("\n|---|");
  for (size_t i = 0; i < outcomes.size(); ++i) std::printf("---|");
  for (size_t i = 0; i < prefill::kNumComponents; ++i) {
    const Component component = static_cast<Component>(i);
    std::printf("\n| %s |", prefill::ComponentName(component));
    for (const Outcome& outcome : outcomes) {
      std::printf(" %lld |", static_cast<long long>(outcome.peak[component]));
    }
  }
  std::printf("\n| all but the weights at once |");
  for (const Outcome& outcome : outcomes) {
    std::printf(" %lld (%s) |", static_cast<long long>(outcome.peak.transient),
                FormatBytes(outcome.peak.transient).c_str());
  }
  std::printf("\n| times the peak of %s |", ScheduleName(outcomes.front().schedule));
  for (const Outcome& outcome : outcomes) {
    std::printf(" %.2f |", static_cast<double>(outcome.peak.transient) /
                               static_cast<double>(outcomes.front().peak.transient));
  }
  std::printf("\n| seconds |");
  for (const Outcome& outcome : outcomes) std::printf(" %.1f |", outcome.seconds);
  std::printf("\n");
}

// Prints what falls short; whether nothing does.
bool SameFirstToken(const std::vector<Outcome>& outcomes) {
  const bool same = std::all_of(outcomes.begin(), outcomes.end(), [&](const Outcome& outcome) {
    return outcome.first_token == outcomes.front().first_token;
  });
  if (!same) std::fprintf(stderr, "the schedules disagree on the first token\n");
  return same;
}

bool Check(const std::vector<Outcome>& outcomes, int64_t one_layer_bytes) {
  bool good = true;
  const MemoryUse& layer_major = outcomes.front().peak;
  if (layer_major[Component::kActiveKv] != one_layer_bytes) {
    std::fprintf(stderr,
                 "check failed: layer-major keeps %lld bytes of K and V, a layer has %lld\n",
                 static_cast<long long>(layer_major[Component::kActiveKv]),
                 static_cast<long long>(one_layer_bytes));
    good = false;
  }
  for (size_t i = 1; i < outcomes.size(); ++i) {
    if (layer_major.transient < outcomes[i].peak.transient) continue;
    std::fprintf(stderr, "check failed: layer-major's peak is not below that of %s\n",
                 ScheduleName(outcomes[i].schedule));
    good = false;
  }
  return good;
}

// Whether everything that was asked for holds.
absl::StatusOr<bool> Run() {
  ASSIGN_OR_RETURN(const std::unique_ptr<const model::Model> model,
                   model::Model::Load(absl::GetFlag(FLAGS_model)));
  ASSIGN_OR_RETURN(const std::vector<int32_t> prompt_ids,
                   OwnPrompt(*model, absl::GetFlag(FLAGS_text), absl::GetFlag(FLAGS_root),
                             absl::GetFlag(FLAGS_tokens)));
  kernels::Stream stream(ThreadsOrAll(absl::GetFlag(FLAGS_threads)));
  std::printf("%s; %d tokens in chunks of %d\n\n", Setting(*model, stream.num_threads()).c_str(),
              absl::GetFlag(FLAGS_tokens), absl::GetFlag(FLAGS_chunk));
  std::vector<Outcome> outcomes;
  for (const Schedule schedule : kSchedules) {
    ASSIGN_OR_RETURN(Outcome outcome, Measure(*model, schedule, prompt_ids, stream));
    outcomes.push_back(std::move(outcome));
  }
  PrintTable(outcomes);
  bool good = SameFirstToken(outcomes);
  if (absl::GetFlag(FLAGS_check)) {
    const int64_t one_layer =
        model::ActiveKv::BytesFor(model->config(), static_cast<int64_t>(prompt_ids.size()));
    good = Check(outcomes, one_layer) && good;
  }
  return good;
}

int Main(int argc, char** argv) {
  ParseFlags("residency_bench: what a prefill holds in memory under each schedule.", argc, argv);
  if (absl::GetFlag(FLAGS_model).empty()) DieOfBadFlag(Invalid("--model is missing"));
  const absl::StatusOr<bool> good = Run();
  if (!good.ok()) {
    std::fprintf(stderr, "residency_bench: %s\n", std::string(good.status().message()).c_str());
    return 1;
  }
  return *good ? 0 : 1;
}

}  // namespace
}  // namespace anchorage::bench

int main(int argc, char** argv) { return anchorage::bench::Main(argc, argv); }
