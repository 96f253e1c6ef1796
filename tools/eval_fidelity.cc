#include "tools/eval_fidelity.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "eval/ablation/ablation.h"
#include "eval/candidate.h"
#include "eval/fidelity/measurement.h"
#include "eval/fidelity/report.h"
#include "eval/fidelity/results_file.h"
#include "eval/prompts.h"
#include "eval/report/progress.h"
#include "kernels/stream.h"
#include "kv/plan/plan.h"
#include "kv/plan_flags.h"
#include "model/model.h"
#include "text/tokenizer.h"
#include "tools/flags.h"

ABSL_FLAG(std::vector<std::string>, kinds, {},
          "kinds of prompt: prose, code, retrieval, text; default: the first three, or text and "
          "retrieval with --text");
ABSL_FLAG(int64_t, prompts, 10, "prompts of each kind and length");
ABSL_FLAG(int64_t, forced, 256, "tokens behind each prompt that are predicted from its cache");
ABSL_FLAG(int64_t, probe_rows, 32, "tokens behind each prompt whose attention is compared");
ABSL_FLAG(std::string, text, "", "a text file of yours, instead of this repository's texts");
ABSL_FLAG(std::string, root, ".", "top folder of this repository's sources");
ABSL_FLAG(bool, check, false, "end with status 1 when the compact layout falls short");
ABSL_FLAG(int64_t, rho_ppm, anchorage::kv::PlanOptions().rho_ppm,
          "compact: share of the free anchors chosen by score, in ppm");
ABSL_FLAG(int64_t, pool_width, anchorage::kv::PlanOptions().pool_width,
          "compact: positions over which scores are pooled; odd");
ABSL_FLAG(int64_t, utility_pool_width, anchorage::kv::PlanOptions().utility_pool_width,
          "compact: positions over which the residuals' utilities are pooled; odd, 1: not at all");

ABSL_FLAG(int64_t, fine_share_ppm, anchorage::kv::PlanOptions().fine_share_ppm,
          "compact: share of the residuals' bytes that goes to second ones, in ppm");

namespace anchorage::tools {
namespace {

namespace fs = std::filesystem;

// What was asked.
struct Question {
  std::string out;
  kv::PlanOptions compact;  // but for its ratio
  std::vector<eval::Candidate> candidates;
  eval::PromptRequest prompts;
  int64_t probe_rows = 0;
  int threads = 1;
  bool check = false;
};

absl::StatusOr<eval::PromptRequest> PromptsFromFlags() {
  eval::PromptRequest request;
  request.kinds = absl::GetFlag(FLAGS_kinds);
  request.text_path = absl::GetFlag(FLAGS_text);
  if (request.kinds.empty()) {
    request.kinds = request.text_path.empty()
                        ? std::vector<std::string>{"prose", "code", "retrieval"}
                        : std::vector<std::string>{"text", "retrieval"};
  }
  ASSIGN_OR_RETURN(request.lengths, LengthsFromFlags({4096}));
  request.count = absl::GetFlag(FLAGS_prompts);
  request.forced = absl::GetFlag(FLAGS_forced);
  request.seed = absl::GetFlag(FLAGS_seed);
  request.root = absl::GetFlag(FLAGS_root);
  return request;
}

// What is served by default, with the options that the flags vary.
absl::StatusOr<kv::PlanOptions> CompactFromFlags() {
  ASSIGN_OR_RETURN(kv::PlanOptions options, kv::PlanOptionsFromFlags(absl::GetFlag(FLAGS_model)));
  options.rho_ppm = absl::GetFlag(FLAGS_rho_ppm);
  options.pool_width = absl::GetFlag(FLAGS_pool_width);
  options.utility_pool_width = absl::GetFlag(FLAGS_utility_pool_width);
  options.fine_share_ppm = absl::GetFlag(FLAGS_fine_share_ppm);
  return options;
}

// Everything that --check judges must have been asked for.
absl::Status CheckCanBeJudged(const std::vector<eval::Candidate>& candidates,
                              const eval::PromptRequest& prompts) {
  for (const char* needed : {"compact 10x", "compact 20x", "paper 10x", "paper 20x"}) {
    if (std::none_of(candidates.begin(), candidates.end(),
                     [needed](const eval::Candidate& one) { return one.name() == needed; })) {
      return Invalid("--check judges '%s': name it with --methods and --ratios", needed);
    }
  }
  if (std::count(prompts.lengths.begin(), prompts.lengths.end(), eval::kCheckedTokens) == 0) {
    return Invalid("--check judges prompts of %d tokens: name that with --lengths",
                   eval::kCheckedTokens);
  }
  if (std::all_of(prompts.kinds.begin(), prompts.kinds.end(),
                  [](const std::string& kind) { return kind == "retrieval"; })) {
    return Invalid("--check judges texts: name prose, code or text with --kinds");
  }
  return absl::OkStatus();
}

absl::StatusOr<Question> QuestionFromFlags() {
  Question question;
  if (absl::GetFlag(FLAGS_model).empty()) return Invalid("--model is missing");
  question.out = absl::GetFlag(FLAGS_out);
  if (question.out.empty()) {
    return Invalid("--out is missing: the folder for results, tables and plots");
  }
  ASSIGN_OR_RETURN(const std::vector<double> ratios, RatiosFromFlags());
  ASSIGN_OR_RETURN(question.compact, CompactFromFlags());
  ASSIGN_OR_RETURN(question.candidates,
                   eval::MakeCandidates(MethodsFromFlags({"compact", "paper", "snapkv", "recent"}),
                                        ratios, question.compact));
  ASSIGN_OR_RETURN(question.prompts, PromptsFromFlags());
  question.probe_rows = absl::GetFlag(FLAGS_probe_rows);
  ASSIGN_OR_RETURN(question.threads, ThreadsFromFlags());
  question.check = absl::GetFlag(FLAGS_check);
  if (question.check) {
    RETURN_IF_ERROR(CheckCanBeJudged(question.candidates, question.prompts));
  }
  return question;
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Invalid("--out: cannot make the folder %s: %s", path, error.message());
  return absl::OkStatus();
}

absl::Status WriteFile(const fs::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (!file.flush()) return Invalid("cannot write %s", path.string());
  return absl::OkStatus();
}

// Measures what the file does not have yet. The results of exactly these prompts, in their order.
absl::StatusOr<std::vector<eval::PromptResult>> MeasureAll(const std::vector<eval::Prompt>& prompts,
                                                           eval::Measurement& measurement,
                                                           eval::ResultsFile& file) {
  int64_t tokens = 0;
  size_t known = 0;
  for (const eval::Prompt& prompt : prompts) {
    const bool done = file.Find(prompt) != nullptr;
    known += done ? 1 : 0;
    tokens += done ? 0 : std::ssize(prompt.ids);
  }
  if (known > 0) {
    absl::FPrintF(stderr, "%d of %d prompts are measured already\n", known, prompts.size());
  }
  eval::Progress progress("fidelity", tokens);
  std::vector<eval::PromptResult> results;
  for (const eval::Prompt& prompt : prompts) {
    const std::string name =
        absl::StrCat(prompt.kind, " ", prompt.index, ", ", prompt.seq_len, " tokens");
    if (file.Find(prompt) == nullptr) {
      progress.Advance(0, name);
      absl::StatusOr<eval::PromptResult> result = measurement.Run(prompt);
      if (!result.ok()) return Annotate(result.status(), name);
      RETURN_IF_ERROR(file.Append(*std::move(result)));
      progress.Advance(std::ssize(prompt.ids), name);
    }
    results.push_back(*file.Find(prompt));
  }
  return results;
}

// What stands above the tables.
std::string Head(const Question& question, const model::Model& model) {
  const model::ModelConfig& config = model.config();
  return absl::StrFormat(
      "%s: %d layers, %d/%d heads of %d. %d prompts of each kind and length (%s), %d tokens forced "
      "behind each, attention compared at %d of them. Texts: %s, seed %d. The compact layout: %s, "
      "%d pins, rho %d ppm, scores pooled over %d positions, utilities over %d, second residuals "
      "for %d ppm of the bytes.",
      config.name, config.num_layers, config.num_q_heads, config.num_kv_heads, config.head_dim,
      question.prompts.count, absl::StrJoin(question.prompts.kinds, ", "), question.prompts.forced,
      question.probe_rows,
      question.prompts.text_path.empty() ? "this repository's own"
                                         : fs::path(question.prompts.text_path).filename().string(),
      question.prompts.seed,
      question.compact.profile.empty() ? "equal shares of the layers" : "a profile of the layers",
      question.compact.num_pins, question.compact.rho_ppm, question.compact.pool_width,
      question.compact.utility_pool_width, question.compact.fine_share_ppm);
}

absl::Status WriteReport(const eval::Report& report, const std::string& head,
                         const fs::path& folder) {
  RETURN_IF_ERROR(WriteFile(folder / "report.md", eval::ToMarkdown(report, head)));
  RETURN_IF_ERROR(WriteFile(folder / "report.json", eval::ToJson(report, head)));
  for (const eval::NamedPlot& plot : eval::MakePlots(report)) {
    RETURN_IF_ERROR(WriteFile(folder / plot.file, plot.svg));
  }
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    return Invalid("it takes no argument, got '%s'", arguments.front());
  }
  ASSIGN_OR_RETURN(Question question, QuestionFromFlags());
  ASSIGN_OR_RETURN(const std::unique_ptr<const model::Model> model,
                   model::Model::Load(absl::GetFlag(FLAGS_model)));
  question.prompts.context = model->config().context_length;
  ASSIGN_OR_RETURN(const text::Tokenizer tokenizer, text::Tokenizer::FromGguf(model->file()));
  ASSIGN_OR_RETURN(const std::vector<eval::Prompt> prompts,
                   eval::MakePrompts(question.prompts, tokenizer));
  kernels::Stream stream(question.threads);
  ASSIGN_OR_RETURN(
      eval::Measurement measurement,
      eval::Measurement::Create(*model, question.candidates, question.probe_rows, stream));
  for (const eval::Prompt& prompt : prompts) RETURN_IF_ERROR(measurement.Check(prompt));
  RETURN_IF_ERROR(MakeFolder(question.out));
  const fs::path folder(question.out);
  ASSIGN_OR_RETURN(
      eval::ResultsFile file,
      eval::ResultsFile::Open((folder / "results.jsonl").string(), measurement.setting()));
  ASSIGN_OR_RETURN(const std::vector<eval::PromptResult> results,
                   MeasureAll(prompts, measurement, file));
  const eval::Report report = eval::MakeReport(results);
  const std::string head = Head(question, *model);
  RETURN_IF_ERROR(WriteReport(report, head, folder));
  const bool json = absl::GetFlag(FLAGS_json);
  std::printf("%s", (json ? eval::ToJson(report, head) : eval::ToMarkdown(report, head)).c_str());
  std::fflush(stdout);  // before what falls short, where both go to one place
  const std::vector<std::string> shortfalls = eval::Shortfalls(report);
  for (const std::string& shortfall : shortfalls) {
    absl::FPrintF(stderr, "falls short: %s\n", shortfall);
  }
  if (question.check && !shortfalls.empty()) {
    return FailedPrecondition("the check failed %d times", shortfalls.size());
  }
  return absl::OkStatus();
}

// --help: what the command does, and every ablation that --methods knows.
std::string Description() {
  std::string text =
      "Prefills prompts, keeps each one's cache in several ways and forces the tokens that\n"
      "follow through all of them. Prints a table and leaves in --out: results.jsonl (a line\n"
      "for each prompt as it is done; the same command goes on where it stopped), report.md,\n"
      "report.json and plots.\n"
      "  anchorage eval fidelity --model model.gguf --out fidelity --lengths 4096,7900\n"
      "  anchorage eval fidelity --model model.gguf --out mine --text my.txt --prompts 3\n\n";
  absl::StrAppend(&text, "--methods: ", eval::KnownMethods(),
                  ", or ablations of compact, one or several joined by '+':");
  for (const eval::AblationName& ablation : eval::AblationNames()) {
    absl::StrAppendFormat(&text, "\n  %-20s%s", ablation.name, ablation.help);
  }
  return text;
}

}  // namespace

const Command& EvalFidelityCommand() {
  static const std::string description = Description();
  static const Command command = {
      .name = "fidelity",
      .arguments = "",
      .summary = "how far compressed caches are from the full one, on held-out texts",
      .description = description,
      .flags = {"model",
                "out",
                "kinds",
                "prompts",
                "lengths",
                "forced",
                "methods",
                "ratios",
                "probe_rows",
                "text",
                "root",
                "seed",
                "check",
                "kv_floor_tokens",
                "pin_sinks",
                "kv_profile",
                "rho_ppm",
                "pool_width",
                "utility_pool_width",
                "fine_share_ppm",
                "threads",
                "json"},
      .run = &Run};
  return command;
}

}  // namespace anchorage::tools
