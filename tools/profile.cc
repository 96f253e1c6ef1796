#include "tools/profile.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "eval/profile/calibrate.h"
#include "kv/profile_file.h"
#include "model/model.h"
#include "text/tokenizer.h"
#include "tools/flags.h"

ABSL_DECLARE_FLAG(int64_t, tokens);

ABSL_FLAG(std::vector<std::string>, texts, {},
          "text files to calibrate on, of several kinds, each longer than the prompt");
ABSL_FLAG(int64_t, retrievals, anchorage::eval::CalibrationOptions().num_retrievals,
          "prompts that hide facts in one of the texts and ask for them, beside one of each text");
ABSL_FLAG(int64_t, continuation, 96, "tokens behind each prompt whose predictions are compared");

namespace anchorage::tools {
namespace {

constexpr int64_t kDefaultTokens = 4096;

absl::StatusOr<eval::CalibrationText> ReadTextFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("--texts: cannot read %s", path);
  return eval::CalibrationText{
      path, std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>())};
}

absl::StatusOr<eval::CalibrationOptions> OptionsFromFlags(const std::string& out) {
  eval::CalibrationOptions options;
  for (const std::string& path : absl::GetFlag(FLAGS_texts)) {
    ASSIGN_OR_RETURN(eval::CalibrationText text, ReadTextFile(path));
    options.texts.push_back(std::move(text));
  }
  if (options.texts.empty()) {
    return Invalid("--texts is missing: a few long text files of different kinds");
  }
  options.tokens = absl::GetFlag(FLAGS_tokens) == 0 ? kDefaultTokens : absl::GetFlag(FLAGS_tokens);
  options.num_retrievals = absl::GetFlag(FLAGS_retrievals);
  options.forced = absl::GetFlag(FLAGS_continuation);
  options.journal = out + ".journal";
  return options;
}

// What a profile says that it was made of.
std::string DescribeCalibration(const eval::CalibrationOptions& options) {
  std::string description = absl::StrFormat(
      "%d tokens and the %d behind them of %s", options.tokens, options.forced,
      absl::StrJoin(options.texts, ", ", [](std::string* text, const eval::CalibrationText& each) {
        text->append(each.name.substr(each.name.find_last_of('/') + 1));
      }));
  if (options.num_retrievals == 0) return description;
  return description +
         absl::StrFormat(", and %d prompts that hide facts in them", options.num_retrievals);
}

absl::Status Run(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) return Invalid("profile takes no argument, got '%s'", arguments.front());
  const std::string model_path = absl::GetFlag(FLAGS_model);
  if (model_path.empty()) return Invalid("--model is missing");
  std::string out = absl::GetFlag(FLAGS_out);
  if (out.empty()) out = kv::ProfilePathFor(model_path);
  ASSIGN_OR_RETURN(const eval::CalibrationOptions options, OptionsFromFlags(out));
  ASSIGN_OR_RETURN(const int threads, ThreadsFromFlags());
  ASSIGN_OR_RETURN(const std::unique_ptr<const model::Model> model, model::Model::Load(model_path));
  ASSIGN_OR_RETURN(const text::Tokenizer tokenizer, text::Tokenizer::FromGguf(model->file()));
  kernels::Stream stream(threads);

  kv::ProfileFile file;
  ASSIGN_OR_RETURN(file.profile, eval::Calibrate(*model, tokenizer, options, stream));
  file.model = model->config().name;
  file.geometry = model->geometry();
  file.calibration = DescribeCalibration(options);
  RETURN_IF_ERROR(kv::WriteProfileFile(out, file));
  std::remove(options.journal.c_str());
  std::printf("%s\n", out.c_str());
  return absl::OkStatus();
}

}  // namespace

const Command& ProfileCommand() {
  static const Command command = {
      .name = "profile",
      .arguments = "",
      .summary = "calibrates which layers of a model need the cache's bytes most",
      .description =
          "Most of what compression costs comes from a few layers. This compresses one layer at a "
          "time,\n"
          "at several rates, and measures how far the model's predictions move: behind the "
          "beginning of\n"
          "each text, and where facts are hidden in a text and asked for, as other layers matter "
          "there.\n"
          "The result is a small file from which every program takes the layers' shares "
          "(--kv-profile);\n"
          "the bytes of a request in all stay the same. Once per model; each measurement is kept "
          "in\n"
          "OUT.journal, so a run that was interrupted goes on where it stopped.\n"
          "  anchorage profile --model model.gguf --texts prose.txt,code.py,dialogue.txt",
      .flags = {"model", "texts", "tokens", "continuation", "retrievals", "out", "threads"},
      .run = &Run};
  return command;
}

}  // namespace anchorage::tools
