#include "tools/plan.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "files/gguf.h"
#include "kv/plan/plan.h"
#include "kv/plan_flags.h"
#include "model/config.h"
#include "nlohmann/json.hpp"
#include "tools/break_even.h"
#include "tools/flags.h"

ABSL_FLAG(int64_t, layers, 0, "layers of the model, where no --model is given");
ABSL_FLAG(int64_t, kv_heads, 0, "KV heads of a layer, where no --model is given");
ABSL_FLAG(int64_t, head_dim, 0, "coordinates of a head, where no --model is given");
ABSL_FLAG(int64_t, tokens, 0, "prompt tokens");
ABSL_FLAG(int64_t, max_new, 0, "tokens that may be generated");
ABSL_FLAG(std::string, layout, "", "compact, paper or dense; default: what --kv serves");
ABSL_FLAG(std::string, memory, "",
          "KV memory of a decode node, such as 8GiB: how many sessions fit");
ABSL_FLAG(double, compress_us_per_token, 0,
          "measured time to compress a token of a layer: from which link speed on it stops paying");
ABSL_FLAG(double, prefill_us_per_token, 0,
          "measured time to prefill a token of a layer, behind which transfers hide");

namespace anchorage::tools {
namespace {

using Json = nlohmann::ordered_json;

// What was asked.
struct Question {
  kv::Geometry geometry;
  kv::PlanOptions options;
  int64_t tokens = 0;
  int64_t max_new = 0;
  int64_t memory_bytes = 0;  // 0: not asked
  double prefill_us_per_token = 0;
  double compress_us_per_token = 0;  // 0: not known
};

absl::StatusOr<kv::Geometry> GeometryFromFlags() {
  const std::string path = absl::GetFlag(FLAGS_model);
  const kv::Geometry given = {absl::GetFlag(FLAGS_layers), absl::GetFlag(FLAGS_kv_heads),
                              absl::GetFlag(FLAGS_head_dim)};
  const bool any_given = given.num_layers != 0 || given.num_kv_heads != 0 || given.head_dim != 0;
  if (path.empty() && !any_given) {
    return Invalid("give --model, or --layers, --kv-heads and --head-dim");
  }
  if (path.empty()) return given;
  if (any_given) return Invalid("--model already says --layers, --kv-heads and --head-dim");
  ASSIGN_OR_RETURN(const files::GgufFile file, files::GgufFile::Open(path));
  ASSIGN_OR_RETURN(const model::ModelConfig config, model::ReadConfig(file));
  return kv::Geometry{config.num_layers, config.num_kv_heads, config.head_dim};
}

absl::StatusOr<kv::PlanOptions> OptionsFromFlags() {
  ASSIGN_OR_RETURN(kv::PlanOptions options, kv::PlanOptionsFromFlags(absl::GetFlag(FLAGS_model)));
  const std::string layout = absl::GetFlag(FLAGS_layout);
  if (layout.empty()) return options;
  for (const kv::Layout known : {kv::Layout::kDense, kv::Layout::kCompact, kv::Layout::kPaper}) {
    if (layout != kv::LayoutName(known)) continue;
    options.layout = known;
    return options;
  }
  return Invalid("--layout: '%s' is not compact, paper or dense", layout);
}

absl::StatusOr<double> MicrosecondsFromFlag(const char* name, double value) {
  if (value >= 0 && value <= 1e9) return value;
  return Invalid("--%s: %g is not in 0..1e9", name, value);
}

absl::StatusOr<Question> QuestionFromFlags() {
  Question question;
  ASSIGN_OR_RETURN(question.geometry, GeometryFromFlags());
  ASSIGN_OR_RETURN(question.options, OptionsFromFlags());
  question.tokens = absl::GetFlag(FLAGS_tokens);
  question.max_new = absl::GetFlag(FLAGS_max_new);
  const std::string problem =
      kv::CheckPlan(question.geometry, question.options, question.tokens, question.max_new);
  if (!problem.empty()) return Invalid("%s", problem);
  if (const std::string memory = absl::GetFlag(FLAGS_memory); !memory.empty()) {
    ASSIGN_OR_RETURN(question.memory_bytes, ParseBytes(memory));
  }
  ASSIGN_OR_RETURN(
      question.prefill_us_per_token,
      MicrosecondsFromFlag("prefill-us-per-token", absl::GetFlag(FLAGS_prefill_us_per_token)));
  ASSIGN_OR_RETURN(
      question.compress_us_per_token,
      MicrosecondsFromFlag("compress-us-per-token", absl::GetFlag(FLAGS_compress_us_per_token)));
  return question;
}

// Bits per second, or 0 when it was not asked or nothing is compressed.
double BreakEvenBitsPerSecond(const Question& question, const kv::RequestPlan& request) {
  if (question.compress_us_per_token <= 0 || request.prompt_bytes >= request.full_bytes) return 0;
  const double tokens_us = static_cast<double>(question.tokens) * 1e-6;
  const int64_t layers = question.geometry.num_layers;
  return 8 * BreakEvenBytesPerSecond({layers, request.full_bytes / layers,
                                      request.prompt_bytes / layers,
                                      question.prefill_us_per_token * tokens_us,
                                      question.compress_us_per_token * tokens_us});
}

double Ratio(int64_t full_bytes, int64_t bytes) {
  return static_cast<double>(full_bytes) / static_cast<double>(bytes);
}

double Percent(int64_t part, int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

Json TensorsJson(const kv::LayerPlan& layer) {
  Json tensors = Json::array();
  for (const kv::TensorPlan& tensor : layer.tensors) {
    tensors.push_back({{"name", tensor.name}, {"offset", tensor.offset}, {"bytes", tensor.bytes}});
  }
  return tensors;
}

Json LayerJson(const kv::LayerPlan& layer) {
  return {{"layout", kv::LayoutName(layer.layout)},
          {"base_bytes", layer.base_bytes},
          {"slots", layer.key_slots + layer.value_slots},
          {"key_slots", layer.key_slots},
          {"value_slots", layer.value_slots},
          {"key_fine_slots", layer.key_fine_slots},
          {"value_fine_slots", layer.value_fine_slots},
          {"bytes", layer.bytes},
          {"region_bytes", layer.region_bytes},
          {"budget_bytes", layer.budget_bytes},
          {"full_bytes", layer.full_bytes},
          {"ratio", Ratio(layer.full_bytes, layer.bytes)},
          {"retained", layer.num_retained},
          {"pinned", layer.num_pins},
          {"fitted", layer.num_fitted},
          {"scored", layer.num_scored},
          {"uniform", layer.num_uniform},
          {"window", layer.window_len},
          {"budget_infeasible", layer.budget_infeasible},
          {"tensors", TensorsJson(layer)}};
}

// What the profile expects of each layer; empty where it expects nothing.
std::vector<int64_t> NanonatsLeft(const Question& question, const kv::RequestPlan& request) {
  std::vector<int64_t> left;
  const bool is_compact = request.layers.front().layout == kv::Layout::kCompact;
  if (!is_compact || question.options.profile.empty()) return left;
  for (size_t i = 0; i < request.layers.size(); ++i) {
    left.push_back(kv::NanonatsLeft(question.options, request.layers[i], static_cast<int64_t>(i)));
  }
  return left;
}

Json AnswerJson(const Question& question, const kv::RequestPlan& request) {
  const kv::LayerPlan& layer = request.layers.front();
  Json shares = Json::array();
  for (const kv::LayerPlan& each : request.layers) shares.push_back(each.budget_bytes);
  Json answer = {{"layers", question.geometry.num_layers},
                 {"kv_heads", question.geometry.num_kv_heads},
                 {"head_dim", question.geometry.head_dim},
                 {"tokens", question.tokens},
                 {"max_new", question.max_new},
                 {"theta_ppm", question.options.theta_ppm},
                 {"anchors", layer.num_anchors},
                 {"layer", LayerJson(layer)},
                 {"layer_budget_bytes", shares},
                 {"request",
                  {{"bytes", request.bytes},
                   {"prompt_bytes", request.prompt_bytes},
                   {"region_bytes", request.region_bytes},
                   {"generated_blocks", request.generated_blocks},
                   {"generated_bytes", request.generated_blocks * request.generated_block_bytes},
                   {"full_bytes", request.full_bytes},
                   {"ratio", Ratio(request.full_bytes, request.prompt_bytes)}}}};
  if (const std::vector<int64_t> left = NanonatsLeft(question, request); !left.empty()) {
    answer["layer_nanonats_left"] = left;
  }
  if (question.memory_bytes > 0) answer["sessions"] = question.memory_bytes / request.bytes;
  if (const double speed = BreakEvenBitsPerSecond(question, request); speed > 0) {
    answer["break_even_bits_per_second"] = speed;
  }
  return answer;
}

void Row(const char* name, int64_t bytes) {
  std::printf("  %-26s %15lld  %s\n", name, static_cast<long long>(bytes),
              FormatBytes(bytes).c_str());
}

void PrintAnchors(const kv::LayerPlan& layer) {
  std::printf("  ratio %.2f; %lld + %lld slots of K and V, %lld + %lld of them fine\n",
              Ratio(layer.full_bytes, layer.bytes), static_cast<long long>(layer.key_slots),
              static_cast<long long>(layer.value_slots),
              static_cast<long long>(layer.key_fine_slots),
              static_cast<long long>(layer.value_fine_slots));
  if (layer.layout == kv::Layout::kCompact) {
    std::printf("  %lld anchors per head: %lld pinned, %lld fitted, window %lld\n",
                static_cast<long long>(layer.num_anchors), static_cast<long long>(layer.num_pins),
                static_cast<long long>(layer.num_fitted), static_cast<long long>(layer.window_len));
  } else {
    std::printf("  %lld anchors per head: %lld by score, %lld uniform, window %lld\n",
                static_cast<long long>(layer.num_anchors), static_cast<long long>(layer.num_scored),
                static_cast<long long>(layer.num_uniform),
                static_cast<long long>(layer.window_len));
  }
}

void PrintRetained(const kv::LayerPlan& layer) {
  std::printf("  ratio %.2f\n", Ratio(layer.full_bytes, layer.bytes));
  std::printf("  %lld of %lld positions per head: %lld first, %lld by score, %lld last\n",
              static_cast<long long>(layer.num_retained), static_cast<long long>(layer.seq_len),
              static_cast<long long>(layer.num_pins), static_cast<long long>(layer.num_scored),
              static_cast<long long>(layer.num_retained - layer.num_pins - layer.num_scored));
}

void PrintLayer(const kv::LayerPlan& layer, bool all_alike) {
  std::printf("%s (%s)\n", all_alike ? "One layer" : "Layer 0", kv::LayoutName(layer.layout));
  for (const kv::TensorPlan& tensor : layer.tensors) Row(tensor.name, tensor.bytes);
  if (kv::EvictsPositions(layer.layout)) {
    Row("in all", layer.bytes);
  } else {
    Row("base", layer.base_bytes);
    Row("with residual slots", layer.bytes);
  }
  Row("in memory, aligned", layer.region_bytes);
  Row("budget", layer.budget_bytes);
  Row("dense", layer.full_bytes);
  if (kv::EvictsPositions(layer.layout)) {
    PrintRetained(layer);
  } else {
    PrintAnchors(layer);
  }
  if (layer.budget_infeasible) {
    std::printf("  the budget is infeasible: this is the least that the layout can do\n");
  }
}

void PrintRequest(const Question& question, const kv::RequestPlan& request) {
  std::printf("\nThe request: %lld layers, %lld prompt tokens, up to %lld new\n",
              static_cast<long long>(question.geometry.num_layers),
              static_cast<long long>(question.tokens), static_cast<long long>(question.max_new));
  Row("prompt, on the wire", request.prompt_bytes);
  Row("prompt, in memory", request.region_bytes);
  Row("generated tokens", request.generated_blocks * request.generated_block_bytes);
  Row("reserved in all", request.bytes);
  Row("prompt, dense", request.full_bytes);
}

// Bytes of the layer that has the fewest and of the one that has the most.
std::pair<int64_t, int64_t> LeastAndMost(const kv::RequestPlan& request) {
  const auto [least, most] = std::minmax_element(
      request.layers.begin(), request.layers.end(),
      [](const kv::LayerPlan& a, const kv::LayerPlan& b) { return a.bytes < b.bytes; });
  return {least->bytes, most->bytes};
}

// The layers that cost most, by the profile.
void PrintCosts(const Question& question, const kv::RequestPlan& request) {
  constexpr size_t kShown = 8;
  const std::vector<int64_t> left = NanonatsLeft(question, request);
  const auto sum = std::accumulate(left.begin(), left.end(), int64_t{0});
  if (sum == 0) return;  // nothing is expected, or nothing is left
  std::vector<size_t> order(left.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&left](size_t a, size_t b) { return left[a] > left[b]; });
  std::printf("\nDivergence that the profile's calibration saw, one layer compressed at a time:\n");
  int64_t shown = 0;
  for (size_t i = 0; i < std::min(kShown, order.size()); ++i) {
    const size_t layer = order[i];
    shown += left[layer];
    std::printf("  layer %-3zu %10.6f nats  %3.0f %%  in %s\n", layer,
                static_cast<double>(left[layer]) * 1e-9, Percent(left[layer], sum),
                FormatBytes(request.layers[layer].bytes).c_str());
  }
  if (order.size() <= kShown) return;
  std::printf("  others    %10.6f nats  %3.0f %%\n", static_cast<double>(sum - shown) * 1e-9,
              Percent(sum - shown, sum));
}

void PrintAnswer(const Question& question, const kv::RequestPlan& request) {
  const auto [least, most] = LeastAndMost(request);
  PrintLayer(request.layers.front(), least == most);
  if (least != most) {
    std::printf("  by the profile, layers have %s to %s\n", FormatBytes(least).c_str(),
                FormatBytes(most).c_str());
  }
  PrintRequest(question, request);
  PrintCosts(question, request);
  if (question.memory_bytes > 0) {
    std::printf("\n%lld such sessions fit in %s.\n",
                static_cast<long long>(question.memory_bytes / request.bytes),
                FormatBytes(question.memory_bytes).c_str());
  }
  const double speed = BreakEvenBitsPerSecond(question, request);
  if (speed > 0) {
    std::printf(
        "\nCompression stops paying on links above %.2f Gbit/s: there, with L layers of c seconds\n"
        "and b bytes each, c + (L-1) max(c, b/speed) + b/speed is the same for the dense cache\n"
        "(c = prefill, b = dense bytes) and for the compressed one (c = prefill + compression).\n",
        speed * 1e-9);
  }
}

absl::Status Run(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) return Invalid("plan takes no argument, got '%s'", arguments.front());
  ASSIGN_OR_RETURN(const Question question, QuestionFromFlags());
  const kv::RequestPlan request =
      kv::PlanRequest(question.geometry, question.options, question.tokens, question.max_new);
  if (absl::GetFlag(FLAGS_json)) {
    std::printf("%s\n", AnswerJson(question, request).dump().c_str());
  } else {
    PrintAnswer(question, request);
  }
  return absl::OkStatus();
}

}  // namespace

const Command& PlanCommand() {
  static const Command command = {
      .name = "plan",
      .arguments = "",
      .summary = "exact bytes of a request's cache, from its shape alone",
      .description =
          "Prints what the cache of one layer and of the whole request costs, to the byte, before\n"
          "anything is computed, and with a profile which layers it expects the rest of the error "
          "from.\n"
          "  anchorage plan --model model.gguf --tokens 8000 --max-new 512 --memory 8GiB\n"
          "  anchorage plan --layers 32 --kv-heads 8 --head-dim 128 --tokens 32768 --json",
      .flags = {"model", "layers", "kv_heads", "head_dim", "tokens", "max_new", "kv", "ratio",
                "layout", "kv_floor_tokens", "pin_sinks", "kv_profile", "memory",
                "compress_us_per_token", "prefill_us_per_token", "json"},
      .run = &Run};
  return command;
}

}  // namespace anchorage::tools
