#include "tools/generate.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/flags/flag.h"
#include "common/bytes.h"
#include "common/read_file.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "kv/cache_file.h"
#include "kv/plan_flags.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "tools/flags.h"
#include "tools/local_engine.h"

ABSL_FLAG(std::string, prompt, "", "the prompt; without it and --file, standard input is read");
ABSL_FLAG(std::string, file, "", "read the prompt from this file");
ABSL_FLAG(bool, chat, false,
          "put the prompt into the model's chat template, as the user's message");
ABSL_FLAG(int, max_tokens, 256, "most tokens to generate");
ABSL_FLAG(double, temperature, 0, "0 picks the likeliest token; higher is more random");
ABSL_FLAG(int, top_k, 0, "pick among so many likeliest tokens; 0: off");
ABSL_FLAG(double, top_p, 1,
          "pick among the likeliest tokens that make up this probability; 1: off");
ABSL_FLAG(double, min_p, 0,
          "pick among tokens at least this likely, relative to the likeliest; 0: off");
ABSL_FLAG(bool, ignore_eos, false, "go on to --max-tokens, whatever the model says");
ABSL_FLAG(std::string, schedule, "layer-major",
          "order of the prefill: layer-major, chunk-major or one-shot");
ABSL_FLAG(int, chunk, 2048, "tokens of a prefill chunk");
ABSL_FLAG(std::string, save_kv, "", "write the prompt's cache, the bytes that would travel, here");

namespace anchorage::tools {
namespace {

using Json = nlohmann::ordered_json;

double Milliseconds(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

absl::StatusOr<std::string> ReadPrompt() {
  const std::string prompt = absl::GetFlag(FLAGS_prompt);
  const std::string path = absl::GetFlag(FLAGS_file);
  if (!prompt.empty() && !path.empty()) return Invalid("--prompt and --file exclude each other");
  if (!prompt.empty()) return prompt;
  if (path.empty()) {
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  return ReadFile(path);
}

absl::StatusOr<std::vector<int32_t>> Tokenise(const text::Tokenizer& tokenizer,
                                              const files::GgufFile& file,
                                              const std::string& prompt) {
  if (absl::GetFlag(FLAGS_chat)) {
    ASSIGN_OR_RETURN(const text::ChatTemplate chat, text::ChatTemplate::FromGguf(file));
    const text::ChatMessage message{"user", prompt};
    ASSIGN_OR_RETURN(const std::vector<text::TextSegment> segments,
                     chat.Render({&message, 1}, /*add_generation_prompt=*/true));
    return tokenizer.EncodeSegments(segments);
  }
  std::vector<int32_t> ids = tokenizer.Encode(prompt);
  if (tokenizer.add_bos() && tokenizer.bos_id().has_value()) {
    ids.insert(ids.begin(), *tokenizer.bos_id());
  }
  return ids;
}

model::SamplingParams SamplingFromFlags() {
  model::SamplingParams sampling;
  sampling.temperature = static_cast<float>(absl::GetFlag(FLAGS_temperature));
  sampling.top_k = absl::GetFlag(FLAGS_top_k);
  sampling.top_p = static_cast<float>(absl::GetFlag(FLAGS_top_p));
  sampling.min_p = static_cast<float>(absl::GetFlag(FLAGS_min_p));
  sampling.seed = absl::GetFlag(FLAGS_seed);
  sampling.ignore_eos = absl::GetFlag(FLAGS_ignore_eos);
  return sampling;
}

// A line on the terminal that shows how far a long prefill is; nothing when standard error is none.
class Progress {
 public:
  Progress(int64_t num_layers, int64_t prompt_tokens, prefill::Schedule schedule)
      : total_(num_layers * prompt_tokens),
        num_layers_(num_layers),
        by_chunk_(schedule != prefill::Schedule::kLayerMajor),
        shown_(isatty(STDERR_FILENO) == 1 && prompt_tokens >= kWorthShowing) {}

  void Show(const prefill::ScheduleEvent& event) {
    if (!shown_) return;
    if (event.kind == prefill::ScheduleEvent::Kind::kPromptDone) {
      std::fprintf(stderr, "\r\x1b[K");
    } else if (event.kind == prefill::ScheduleEvent::Kind::kChunkDone) {
      const int64_t prompt_tokens = total_ / num_layers_;
      const int64_t done =
          by_chunk_ ? event.tokens * (event.layer + 1) : event.layer * prompt_tokens + event.tokens;
      std::fprintf(stderr, "\rprefill: layer %d of %d, %3d %%", static_cast<int>(event.layer + 1),
                   static_cast<int>(num_layers_), static_cast<int>(100 * done / total_));
    }
    std::fflush(stderr);
  }

 private:
  static constexpr int64_t kWorthShowing = 512;

  const int64_t total_;
  const int64_t num_layers_;
  const bool by_chunk_;
  const bool shown_;
};

const char* FinishName(model::Finish finish) {
  return finish == model::Finish::kStop ? "stop" : "length";
}

Json TimingsJson(const LocalResult& result, int64_t load_ns) {
  int64_t unpack_ns = 0;
  int64_t compute_ns = 0;
  int64_t compress_ns = 0;
  for (const prefill::LayerTiming& layer : result.prefill.layers) {
    unpack_ns += layer.unpack_ns;
    compute_ns += layer.compute_ns;
    compress_ns += layer.compress_ns;
  }
  return {{"load", Milliseconds(load_ns)},
          {"prefill", Milliseconds(result.prefill.total_ns)},
          {"prefill_unpack", Milliseconds(unpack_ns)},
          {"prefill_compute", Milliseconds(compute_ns)},
          {"prefill_compress", Milliseconds(compress_ns)},
          {"decode", Milliseconds(result.decode_ns)}};
}

Json PeakJson(const prefill::MemoryUse& peak) {
  Json json;
  for (size_t i = 0; i < prefill::kNumComponents; ++i) {
    json[prefill::ComponentName(static_cast<prefill::Component>(i))] = peak.by_component[i];
  }
  json["transient"] = peak.transient;
  return json;
}

struct Generation {
  std::string text;
  LocalResult result;
};

Json ResultJson(const model::Model& model, const LocalOptions& options, const LocalRequest& request,
                const Generation& generation, const prefill::MemoryUse& peak, int64_t load_ns) {
  const LocalResult& result = generation.result;
  const int64_t prompt_tokens = static_cast<int64_t>(request.prompt_ids.size());
  const kv::RequestPlan plan =
      kv::PlanRequest(model.geometry(), options.prefill.plan, prompt_tokens, request.max_new);
  return {{"model", model.config().name},
          {"kv", kv::DescribeKv(options.prefill.plan)},
          {"schedule", prefill::ScheduleName(options.prefill.schedule)},
          {"threads", options.threads},
          {"prompt_tokens", prompt_tokens},
          {"prompt_ids", request.prompt_ids},
          {"token_ids", result.tokens},
          {"text", generation.text},
          {"finish_reason", FinishName(result.finish)},
          {"ms", TimingsJson(result, load_ns)},
          {"bytes",
           {{"compressed", result.prefill.compressed_bytes},
            {"travels", plan.region_bytes},
            {"uncompressed", plan.full_bytes},
            {"ratio", static_cast<double>(plan.full_bytes) /
                          static_cast<double>(result.prefill.compressed_bytes)},
            {"decode_reserved", result.arena_bytes},
            {"decode_planned", plan.bytes}}},
          {"peak_bytes", PeakJson(peak)}};
}

void PrintSummary(const LocalRequest& request, const LocalResult& result,
                  const kv::RequestPlan& plan) {
  const size_t prompt_tokens = request.prompt_ids.size();
  const double prefill_s = static_cast<double>(result.prefill.total_ns) * 1e-9;
  const double decode_s = static_cast<double>(result.decode_ns) * 1e-9;
  absl::FPrintF(
      stderr, "\nprompt %d tokens in %.2f s (%.0f tokens/s), cache %s of %s (%.1fx)", prompt_tokens,
      prefill_s, static_cast<double>(prompt_tokens) / prefill_s,
      FormatBytes(result.prefill.compressed_bytes), FormatBytes(plan.full_bytes),
      static_cast<double>(plan.full_bytes) / static_cast<double>(result.prefill.compressed_bytes));
  if (result.tokens.size() > 1) {
    absl::FPrintF(stderr, "; generated %d tokens (%.1f tokens/s)", result.tokens.size(),
                  static_cast<double>(result.tokens.size() - 1) / decode_s);
  }
  absl::FPrintF(stderr, "\n");
}

absl::StatusOr<std::unique_ptr<kv::CacheFileSink>> OpenCacheFile(const model::Model& model,
                                                                 const kv::PlanOptions& plan,
                                                                 size_t prompt_tokens) {
  const std::string directory = absl::GetFlag(FLAGS_save_kv);
  if (directory.empty()) return nullptr;
  const model::ModelConfig& config = model.config();
  const kv::CacheHeader header{.geometry = model.geometry(),
                               .options = plan,
                               .seq_len = static_cast<int64_t>(prompt_tokens),
                               .packing = decode::kCodePacking,
                               .model_fingerprint = model.fingerprint(),
                               .rope_frequencies = kv::RopeFrequencies(
                                   config.rope_theta, config.head_dim, config.rope_divisors)};
  return kv::CacheFileSink::Create(directory, header);
}

absl::StatusOr<LocalOptions> OptionsFromFlags(const text::Tokenizer& tokenizer) {
  LocalOptions options;
  ASSIGN_OR_RETURN(options.threads, ThreadsFromFlags());
  ASSIGN_OR_RETURN(options.prefill.schedule, prefill::ParseSchedule(absl::GetFlag(FLAGS_schedule)));
  ASSIGN_OR_RETURN(options.prefill.plan, kv::PlanOptionsFromFlags(absl::GetFlag(FLAGS_model)));
  options.prefill.chunk_tokens = absl::GetFlag(FLAGS_chunk);
  if (options.prefill.chunk_tokens < 1) return Invalid("--chunk must be at least 1");
  const std::span<const int32_t> stops = tokenizer.stop_ids();
  options.prefill.model_stop_ids.assign(stops.begin(), stops.end());
  return options;
}

absl::StatusOr<LocalRequest> RequestFromFlags(const model::Model& model,
                                              const text::Tokenizer& tokenizer) {
  LocalRequest request;
  request.sampling = SamplingFromFlags();
  RETURN_IF_ERROR(model::CheckSampling(request.sampling, model.config().vocab_size));
  ASSIGN_OR_RETURN(const std::string prompt, ReadPrompt());
  ASSIGN_OR_RETURN(request.prompt_ids, Tokenise(tokenizer, model.file(), prompt));
  const int64_t prompt_tokens = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t room = model.config().context_length - prompt_tokens;
  if (prompt_tokens == 0) return Invalid("the prompt is empty");
  if (room < 1) {
    return Invalid("the prompt has %d tokens, the model's context is %d", prompt_tokens,
                   model.config().context_length);
  }
  if (absl::GetFlag(FLAGS_max_tokens) < 1) return Invalid("--max-tokens must be at least 1");
  request.max_new = std::min<int64_t>(absl::GetFlag(FLAGS_max_tokens), room);
  return request;
}

absl::StatusOr<Generation> Generate(LocalEngine& engine, const text::Tokenizer& tokenizer,
                                    LocalRequest& request, bool stream) {
  Generation generation;
  text::Detokenizer detokenizer(&tokenizer);
  const auto show = [&](const std::string& piece) {
    generation.text += piece;
    if (!stream) return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  request.on_token = [&](int32_t token) { show(detokenizer.Push(token)); };
  ASSIGN_OR_RETURN(generation.result, engine.Run(request));
  show(detokenizer.Finish());
  if (stream) std::fputc('\n', stdout);
  return generation;
}

absl::Status Run(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) return Invalid("generate takes no argument, got '%s'", arguments.front());
  if (absl::GetFlag(FLAGS_model).empty()) return Invalid("--model is missing");
  const Clock& clock = Clock::Real();
  const int64_t begin_ns = clock.NowNs();
  ASSIGN_OR_RETURN(const std::unique_ptr<const model::Model> model,
                   model::Model::Load(absl::GetFlag(FLAGS_model)));
  ASSIGN_OR_RETURN(const text::Tokenizer tokenizer, text::Tokenizer::FromGguf(model->file()));
  const int64_t load_ns = clock.NowNs() - begin_ns;

  ASSIGN_OR_RETURN(LocalOptions options, OptionsFromFlags(tokenizer));
  ASSIGN_OR_RETURN(LocalRequest request, RequestFromFlags(*model, tokenizer));
  ASSIGN_OR_RETURN(const std::unique_ptr<kv::CacheFileSink> file,
                   OpenCacheFile(*model, options.prefill.plan, request.prompt_ids.size()));
  request.copy = file.get();
  const int64_t prompt_tokens = static_cast<int64_t>(request.prompt_ids.size());
  Progress progress(model->config().num_layers, prompt_tokens, options.prefill.schedule);
  options.prefill.observer = [&](const prefill::ScheduleEvent& event) { progress.Show(event); };
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalEngine> engine,
                   LocalEngine::Create(*model, options, clock));

  const bool json = absl::GetFlag(FLAGS_json);
  ASSIGN_OR_RETURN(const Generation generation, Generate(*engine, tokenizer, request, !json));
  if (json) {
    const Json answer =
        ResultJson(*model, options, request, generation, engine->accountant().peak(), load_ns);
    std::printf("%s\n", answer.dump().c_str());
  } else {
    PrintSummary(
        request, generation.result,
        kv::PlanRequest(model->geometry(), options.prefill.plan, prompt_tokens, request.max_new));
  }
  return absl::OkStatus();
}

}  // namespace

const Command& GenerateCommand() {
  static const Command command = {
      .name = "generate",
      .arguments = "",
      .summary = "text from a prompt, prefill and decode in one process",
      .description =
          "Runs a prompt through layer-major prefill, compresses each layer's KV cache at its end\n"
          "and decodes over the compressed form, as the serving nodes do, without a network.\n"
          "  anchorage generate --model model.gguf --chat --prompt 'Why is the sky blue?'\n"
          "  anchorage generate --model model.gguf --file long.txt --kv none --json",
      .flags = {"model",      "prompt",          "file",      "chat",       "max_tokens", "kv",
                "ratio",      "kv_floor_tokens", "pin_sinks", "kv_profile", "schedule",   "chunk",
                "threads",    "temperature",     "top_k",     "top_p",      "min_p",      "seed",
                "ignore_eos", "save_kv",         "json"},
      .run = &Run};
  return command;
}

}  // namespace anchorage::tools
