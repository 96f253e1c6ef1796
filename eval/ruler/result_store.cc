#include "eval/ruler/result_store.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "common/read_file.h"
#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::eval::ruler {
namespace {

using Json = nlohmann::ordered_json;

std::string ToLine(const Result& result) {
  const Json json = {{"id", result.id},
                     {"setting", result.setting},
                     {"setting_fingerprint", result.setting_fingerprint},
                     {"task", result.task},
                     {"target_len", result.target_len},
                     {"depth", result.depth},
                     {"prompt_fingerprint", result.prompt_fingerprint},
                     {"prompt_tokens", result.prompt_tokens},
                     {"answer_tokens", result.answer_tokens},
                     {"kv_bytes", result.kv_bytes},
                     {"ratio", result.ratio},
                     {"score", result.score},
                     {"digit_prefix", result.digit_prefix},
                     {"answer", result.answer},
                     {"refs", result.refs}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Result> FromLine(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  try {
    Result result;
    json.at("id").get_to(result.id);
    json.at("setting").get_to(result.setting);
    result.setting_fingerprint = json.value("setting_fingerprint", uint64_t{0});  // once not there
    json.at("task").get_to(result.task);
    json.at("target_len").get_to(result.target_len);
    json.at("depth").get_to(result.depth);
    json.at("prompt_fingerprint").get_to(result.prompt_fingerprint);
    json.at("prompt_tokens").get_to(result.prompt_tokens);
    json.at("answer_tokens").get_to(result.answer_tokens);
    json.at("kv_bytes").get_to(result.kv_bytes);
    json.at("ratio").get_to(result.ratio);
    json.at("score").get_to(result.score);
    json.at("digit_prefix").get_to(result.digit_prefix);
    json.at("answer").get_to(result.answer);
    json.at("refs").get_to(result.refs);
    return result;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

absl::Status NoResult(const std::string& path, int64_t line) {
  return DataLoss("%s:%d: this line is no result; delete it or name another folder", path, line);
}

// Whether a text without a line break, the first of its file, may be a line of ours that was cut.
bool MayBeTorn(const std::string& text) {
  constexpr std::string_view kBegin = R"({"id":")";
  if (text.substr(0, kBegin.size()) != kBegin.substr(0, text.size())) return false;
  return !Json::accept(text) || FromLine(text).has_value();
}

}  // namespace

absl::StatusOr<ResultStore> ResultStore::Open(const std::string& path) {
  ResultStore store(path);
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  size_t good = 0;
  if (text.ok()) {
    int64_t number = 1;
    for (size_t end = text->find('\n'); end != std::string::npos; end = text->find('\n', good)) {
      std::optional<Result> result = FromLine(text->substr(good, end - good));
      if (!result.has_value()) return NoResult(path, number);
      store.Remember(*std::move(result));
      good = end + 1;
      ++number;
    }
    if (good == 0 && !MayBeTorn(*text)) return NoResult(path, number);
    std::error_code error;
    if (good < text->size()) std::filesystem::resize_file(path, good, error);
    if (error) return Unavailable("%s: cannot be written: %s", path, error.message());
  }
  store.out_.open(path, std::ios::binary | std::ios::app);
  if (!store.out_) return Unavailable("%s: cannot be written", path);
  return store;
}

const Result* ResultStore::Find(const std::string& id, const std::string& setting) const {
  const auto found = index_.find({id, setting});
  return found == index_.end() ? nullptr : &results_[found->second];
}

absl::Status ResultStore::Append(Result result) {
  out_ << ToLine(result);
  out_.flush();
  if (!out_) return Unavailable("%s: cannot be written", path_);
  Remember(std::move(result));
  return absl::OkStatus();
}

void ResultStore::Remember(Result result) {
  const auto [entry, is_new] = index_.try_emplace({result.id, result.setting}, results_.size());
  if (is_new) {
    results_.push_back(std::move(result));
  } else {
    results_[entry->second] = std::move(result);
  }
}

}  // namespace anchorage::eval::ruler
