#include "eval/profile/calibrate.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "decode_node/core/batch_step.h"
#include "eval/profile/layer_errors.h"
#include "eval/prompts.h"
#include "eval/report/progress.h"
#include "kv/layer_cache.h"
#include "nlohmann/json.hpp"

namespace anchorage::eval {
namespace {

using Json = nlohmann::ordered_json;

// From no residual to two codes for every position, closer where the curves are steep.
std::vector<int64_t> Rates() { return {0, 125, 250, 500, 1000, 1750, 2500, 4750}; }

// What was measured so far, one JSON object a line. A last line that was cut short does not count.
class Journal {
 public:
  // `settings`: what must agree for a measurement to count.
  Journal(std::string path, std::string settings)
      : path_(std::move(path)), settings_(std::move(settings)) {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) Read(line);
  }

  std::optional<std::vector<double>> Find(const std::string& text, int64_t layer) const {
    const auto found = errors_.find({text, layer});
    if (found == errors_.end()) return std::nullopt;
    return found->second;
  }

  absl::Status Add(const std::string& text, int64_t layer, const std::vector<double>& errors) {
    errors_[{text, layer}] = errors;
    if (path_.empty()) return absl::OkStatus();
    std::ofstream file(path_, std::ios::app);
    const Json line = {{"settings", settings_}, {"text", text}, {"layer", layer}, {"nats", errors}};
    // A newline first: it ends a line that was cut short.
    file << "\n" << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    if (!file.flush()) return NotFound("cannot write %s", path_);
    return absl::OkStatus();
  }

 private:
  void Read(const std::string& line) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("settings", Json()) != settings_) return;
    const Json text = json.value("text", Json());
    const Json layer = json.value("layer", Json());
    const Json nats = json.value("nats", Json());
    if (!text.is_string() || !layer.is_number_integer() || !nats.is_array()) return;
    std::vector<double> errors;
    for (const Json& error : nats) {
      if (!error.is_number()) return;
      errors.push_back(error.get<double>());
    }
    if (errors.size() != Rates().size()) return;
    errors_[{text.get<std::string>(), layer.get<int64_t>()}] = errors;
  }

  std::string path_;
  std::string settings_;
  std::map<std::pair<std::string, int64_t>, std::vector<double>> errors_;
};

// [layers][rates] of one text.
using Errors = std::vector<std::vector<double>>;

class Calibration {
 public:
  Calibration(const model::Model& model, const text::Tokenizer& tokenizer,
              const CalibrationOptions& options, kernels::Stream& stream)
      : model_(model),
        tokenizer_(tokenizer),
        options_(options),
        stream_(stream),
        journal_(options.journal, Settings()),
        progress_("profile", (static_cast<int64_t>(options.texts.size()) + options.num_retrievals) *
                                 model.config().num_layers) {}

  absl::StatusOr<std::vector<Errors>> Run() {
    ASSIGN_OR_RETURN(step_, decode::BatchStep::Create(model_, {}, stream_));
    std::vector<Prompt> prompts;
    for (size_t index = 0; index < options_.texts.size(); ++index) {
      const absl::Status made = MakePrompts(index, prompts);
      if (!made.ok()) {
        return Invalid("the text '%s': %s (--tokens, --continuation, --retrievals)",
                       options_.texts[index].name, made.message());
      }
    }
    std::vector<Errors> all;
    for (const Prompt& prompt : prompts) {
      ASSIGN_OR_RETURN(all.emplace_back(), MeasurePrompt(prompt));
    }
    return all;
  }

 private:
  // A text's beginning, and its share of the retrievals, hidden in what follows (from the beginning
  // again where the text ends).
  absl::Status MakePrompts(size_t index, std::vector<Prompt>& prompts) const {
    const CalibrationText& text = options_.texts[index];
    const PromptSize size = {.seq_len = options_.tokens, .forced = options_.forced};
    ASSIGN_OR_RETURN(const PromptSource source,
                     PromptSource::Create(tokenizer_, {text.content}, /*seed=*/index));
    ASSIGN_OR_RETURN(prompts.emplace_back(), source.Passage(text.name, 0, size));
    const auto num_texts = static_cast<int64_t>(options_.texts.size());
    int64_t piece = 1;
    for (auto i = static_cast<int64_t>(index); i < options_.num_retrievals; i += num_texts) {
      ASSIGN_OR_RETURN(prompts.emplace_back(), source.Retrieval(piece++, size));
      prompts.back().kind = "retrieval in " + text.name;
    }
    return absl::OkStatus();
  }

  std::string Settings() const {
    kv::PlanOptions plan = options_.plan;
    plan.profile = kv::Profile();
    plan.theta_ppm = kv::PlanOptions().theta_ppm;
    return absl::StrFormat("model %016x, plan %016x, %d tokens and %d, rates %s",
                           model_.fingerprint(), kv::PlanFingerprint(model_.geometry(), plan),
                           options_.tokens, options_.forced, absl::StrJoin(Rates(), " "));
  }

  absl::StatusOr<Errors> MeasurePrompt(const Prompt& prompt) {
    Errors errors;
    std::unique_ptr<LayerErrors> measured;
    const std::string key = absl::StrFormat("%s (%016x)", prompt.kind, prompt.Digest());
    for (int64_t layer = 0; layer < model_.config().num_layers; ++layer) {
      std::optional<std::vector<double>> known = journal_.Find(key, layer);
      if (!known.has_value()) {
        if (measured == nullptr) {
          ASSIGN_OR_RETURN(measured, LayerErrors::Create(model_, options_.plan, Rates(), prompt.ids,
                                                         options_.tokens, *step_, stream_));
        }
        ASSIGN_OR_RETURN(known, measured->Measure(layer));
        RETURN_IF_ERROR(journal_.Add(key, layer, *known));
      }
      errors.push_back(*std::move(known));
      progress_.Advance(1, absl::StrFormat("%s, layer %d", prompt.kind, layer));
    }
    return errors;
  }

  const model::Model& model_;
  const text::Tokenizer& tokenizer_;
  const CalibrationOptions& options_;
  kernels::Stream& stream_;
  Journal journal_;
  Progress progress_;
  std::unique_ptr<decode::BatchStep> step_;
};

// What compressing without residuals costs, summed over the layers.
double Worst(const Errors& errors) {
  double sum = 0;
  for (const std::vector<double>& layer : errors) sum += layer.front();
  return sum;
}

kv::Profile Combine(const std::vector<Errors>& prompts, int64_t num_layers) {
  kv::Profile profile;
  profile.millibits = Rates();
  const auto num_prompts = static_cast<double>(prompts.size());
  double mean_worst = 0;
  for (const Errors& errors : prompts) mean_worst += Worst(errors) / num_prompts;
  for (size_t layer = 0; layer < static_cast<size_t>(num_layers); ++layer) {
    for (size_t rate = 0; rate < profile.millibits.size(); ++rate) {
      double nats = 0;
      for (const Errors& errors : prompts) {
        const double worst = Worst(errors);
        if (worst > 0) nats += errors[layer][rate] * mean_worst / worst / num_prompts;
      }
      profile.nanonats.push_back(std::llround(std::fmax(nats, 0) * 1e9));
    }
  }
  return profile;
}

}  // namespace

absl::StatusOr<kv::Profile> Calibrate(const model::Model& model, const text::Tokenizer& tokenizer,
                                      const CalibrationOptions& options, kernels::Stream& stream) {
  if (options.texts.empty()) return Invalid("a calibration needs at least one text");
  if (options.num_retrievals < 0) {
    return Invalid("%d retrieval prompts: ask for 0 or more", options.num_retrievals);
  }
  const int64_t context = model.config().context_length;
  if (options.tokens < 1 || options.forced < 1 || options.tokens > context ||
      options.forced > context - options.tokens) {
    return Invalid("%d tokens and %d after them, the model's context is %d", options.tokens,
                   options.forced, model.config().context_length);
  }
  Calibration calibration(model, tokenizer, options, stream);
  ASSIGN_OR_RETURN(const std::vector<Errors> errors, calibration.Run());
  kv::Profile profile = Combine(errors, model.config().num_layers);
  const std::string problem = kv::CheckProfile(profile, model.config().num_layers);
  if (!problem.empty()) return Internal("the measured profile makes no sense: %s", problem);
  return profile;
}

}  // namespace anchorage::eval
