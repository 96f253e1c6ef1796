#include "tools/eval_ruler.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "common/read_file.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "eval/candidate.h"
#include "eval/report/progress.h"
#include "eval/ruler/generate.h"
#include "eval/ruler/http_answerer.h"
#include "eval/ruler/local_answerer.h"
#include "eval/ruler/report.h"
#include "eval/ruler/result_store.h"
#include "eval/ruler/run.h"
#include "eval/ruler/summary.h"
#include "files/gguf.h"
#include "kv/plan_flags.h"
#include "model/config.h"
#include "model/model.h"
#include "tools/flags.h"

ABSL_FLAG(std::vector<std::string>, tasks, {"all"}, "tasks, or all; an unknown one lists them");
ABSL_FLAG(int, samples, 5, "samples of each task and length; of the passkey, for each depth too");
ABSL_FLAG(int, depths, 10, "depths of the passkey's grid");
ABSL_FLAG(std::string, url, "",
          "ask this OpenAI endpoint, such as http://host:8000/v1, instead of answering here");
ABSL_FLAG(std::string, model_name, "", "with --url: the model's name there");
ABSL_FLAG(std::string, label, "",
          "with --url, what the report calls it (default: the address and --model-name); without, "
          "what it puts behind each name but full, to tell runs "
          "with other options apart");
ABSL_FLAG(std::string, prompt_as, "ids",
          "with --url: ids, or text for servers that take no token ids");
ABSL_FLAG(std::string, api_key_file, "", "with --url: file whose first line is the API key");
ABSL_FLAG(std::string, yardstick, "full", "setting that the others are compared with");

namespace anchorage::tools {
namespace {

namespace ruler = eval::ruler;

absl::StatusOr<ruler::RunPlan> PlanFromFlags() {
  ruler::RunPlan plan;
  absl::StatusOr<std::vector<ruler::Task>> tasks = ruler::TasksByName(absl::GetFlag(FLAGS_tasks));
  if (!tasks.ok()) return Annotate(tasks.status(), "--tasks");
  plan.tasks = *std::move(tasks);
  ASSIGN_OR_RETURN(plan.lengths, LengthsFromFlags({1024, 4096}));
  plan.samples = absl::GetFlag(FLAGS_samples);
  if (plan.samples < 1) return Invalid("--samples must be at least 1");
  plan.depths = absl::GetFlag(FLAGS_depths);
  if (plan.depths < 1) return Invalid("--depths must be at least 1");
  plan.seed = absl::GetFlag(FLAGS_seed);
  return plan;
}

absl::StatusOr<std::vector<ruler::KvSetting>> SettingsFromFlags() {
  // Only the environment can have set --kv here, for the servers; other layouts take no profile.
  absl::SetFlag(&FLAGS_kv, "anchorkv");
  ASSIGN_OR_RETURN(const kv::PlanOptions options,
                   kv::PlanOptionsFromFlags(absl::GetFlag(FLAGS_model)));
  ASSIGN_OR_RETURN(const std::vector<double> ratios, RatiosFromFlags());
  ASSIGN_OR_RETURN(std::vector<eval::Candidate> candidates,
                   eval::MakeCandidates(MethodsFromFlags({"compact"}), ratios, options));
  const std::string label = absl::GetFlag(FLAGS_label);
  std::vector<ruler::KvSetting> settings;
  for (eval::Candidate& candidate : candidates) {
    std::string name = candidate.name();
    if (!settings.empty() && !label.empty()) name += " " + label;  // the first is the full cache
    settings.push_back({std::move(name), std::move(candidate)});
  }
  return settings;
}

absl::StatusOr<ruler::HttpAnswererOptions> EndpointFromFlags() {
  ruler::HttpAnswererOptions options;
  absl::StatusOr<eval::HttpEndpoint> endpoint = eval::ParseEndpoint(absl::GetFlag(FLAGS_url));
  if (!endpoint.ok()) return Annotate(endpoint.status(), "--url");
  options.endpoint = *std::move(endpoint);
  options.model_name = absl::GetFlag(FLAGS_model_name);
  if (options.model_name.empty()) {
    return Invalid("--model-name is missing: what the endpoint calls the model (GET %s/models)",
                   options.endpoint.ToString());
  }
  options.label = absl::GetFlag(FLAGS_label);
  if (options.label.empty()) options.label = options.endpoint.ToString() + " " + options.model_name;
  const std::string form = absl::GetFlag(FLAGS_prompt_as);
  if (form != "ids" && form != "text") {
    return Invalid("--prompt-as: '%s' is neither ids nor text", form);
  }
  options.form = form == "ids" ? ruler::PromptForm::kIds : ruler::PromptForm::kText;
  ASSIGN_OR_RETURN(options.api_key,
                   ReadSecretFile("--api-key-file", absl::GetFlag(FLAGS_api_key_file)));
  return options;
}

absl::StatusOr<std::string> FolderFromFlags() {
  const std::string folder = absl::GetFlag(FLAGS_out);
  if (folder.empty()) return Invalid("--out is missing: a folder for the answers and the report");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Invalid("--out: cannot make %s: %s", folder, error.message());
  return folder;
}

// Everything that was asked for, checked.
struct Inputs {
  ruler::RunPlan plan;
  std::string folder;
  std::string model_path;
  bool remote = false;
  ruler::HttpAnswererOptions endpoint;     // where remote
  std::vector<ruler::KvSetting> settings;  // where not
  int threads = 1;
};

absl::StatusOr<Inputs> InputsFromFlags() {
  Inputs inputs;
  ASSIGN_OR_RETURN(inputs.plan, PlanFromFlags());
  inputs.model_path = absl::GetFlag(FLAGS_model);
  if (inputs.model_path.empty()) {
    return Invalid("--model is missing (with --url too: its tokenizer measures the prompts)");
  }
  inputs.remote = !absl::GetFlag(FLAGS_url).empty();
  if (inputs.remote) {
    ASSIGN_OR_RETURN(inputs.endpoint, EndpointFromFlags());
  } else {
    ASSIGN_OR_RETURN(inputs.settings, SettingsFromFlags());
  }
  ASSIGN_OR_RETURN(inputs.threads, ThreadsFromFlags());
  ASSIGN_OR_RETURN(inputs.folder, FolderFromFlags());
  return inputs;
}

absl::Status Answer(const Inputs& inputs, const ruler::PromptRenderer& renderer,
                    ruler::Answerer& answerer) {
  ASSIGN_OR_RETURN(ruler::ResultStore store,
                   ruler::ResultStore::Open(inputs.folder + "/results.jsonl"));
  const std::vector<ruler::SampleKey> keys = ruler::KeysOf(inputs.plan);
  absl::Status status;
  {
    eval::Progress progress("eval ruler", ruler::WorkOf(keys));
    status = ruler::AskAll(keys, renderer, answerer, store, progress);
  }
  if (!status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrFormat("%s\nThe %d answers in %s/results.jsonl are kept; the same "
                        "command goes on behind them.",
                        std::string(status.message()), store.results().size(), inputs.folder));
  }
  const ruler::Summary summary = ruler::Summarise(store.results(), absl::GetFlag(FLAGS_yardstick));
  RETURN_IF_ERROR(ruler::WriteReport(summary, inputs.folder));
  std::printf("%s", ruler::ToMarkdown(summary).c_str());
  std::fprintf(stderr, "\nThe report with its plots is in %s.\n", inputs.folder.c_str());
  return absl::OkStatus();
}

absl::Status AskEndpoint(const Inputs& inputs) {
  ASSIGN_OR_RETURN(const files::GgufFile file, files::GgufFile::Open(inputs.model_path));
  ASSIGN_OR_RETURN(const model::ModelConfig config, model::ReadConfig(file));
  ASSIGN_OR_RETURN(const ruler::PromptRenderer renderer, ruler::PromptRenderer::FromGguf(file));
  RETURN_IF_ERROR(ruler::CheckLengths(inputs.plan, renderer, config.context_length));
  ruler::HttpAnswerer answerer(inputs.endpoint);
  return Answer(inputs, renderer, answerer);
}

absl::Status AnswerHere(const Inputs& inputs) {
  ASSIGN_OR_RETURN(const std::unique_ptr<const model::Model> model,
                   model::Model::Load(inputs.model_path));
  ASSIGN_OR_RETURN(const ruler::PromptRenderer renderer,
                   ruler::PromptRenderer::FromGguf(model->file()));
  RETURN_IF_ERROR(ruler::CheckLengths(inputs.plan, renderer, model->config().context_length));
  ASSIGN_OR_RETURN(const std::unique_ptr<ruler::LocalAnswerer> answerer,
                   ruler::LocalAnswerer::Create(*model, inputs.settings, inputs.threads));
  return Answer(inputs, renderer, *answerer);
}

absl::Status Run(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) return Invalid("it takes no argument, got '%s'", arguments.front());
  ASSIGN_OR_RETURN(const Inputs inputs, InputsFromFlags());
  return inputs.remote ? AskEndpoint(inputs) : AnswerHere(inputs);
}

}  // namespace

const Command& EvalRulerCommand() {
  static const Command command = {
      .name = "ruler",
      .arguments = "",
      .summary = "questions about long texts: needles, chains, counts, facts, passkeys",
      .description =
          "Asks questions with the structure of RULER's 13 tasks (arXiv 2404.06654) and a grid of\n"
          "passkeys, about texts that are made up as they are needed, at exact lengths. Answers\n"
          "here with the full cache and with others (--methods, as `eval fidelity` lists them, at\n"
          "each of --ratios), all from one prefill:\n"
          "  anchorage eval ruler --model M.gguf --out run1 --lengths 1024,4096 --ratios 5,10,20\n"
          "  anchorage eval ruler --model M.gguf --out run1 --tasks niah_single_1,vt --samples 20\n"
          "or asks any OpenAI endpoint the same prompts, by POST /completions:\n"
          "  anchorage eval ruler --model M.gguf --out run1 --url http://host:8000/v1 \\\n"
          "    --model-name NAME --label 'another server'\n"
          "Each answer is kept in OUT/results.jsonl at once; the same command goes on behind what "
          "is\n"
          "there, and other settings, lengths, tasks and endpoints join it. The report "
          "(report.md,\n"
          "report.json and plots) is about all answers in the folder: raw scores, and scores of "
          "what\n"
          "the full cache solves.",
      .flags = {"model", "out", "tasks", "lengths", "samples", "depths", "seed", "methods",
                "ratios", "kv_floor_tokens", "pin_sinks", "kv_profile", "url", "model_name",
                "label", "prompt_as", "api_key_file", "yardstick", "threads"},
      .run = &Run};
  return command;
}

}  // namespace anchorage::tools
