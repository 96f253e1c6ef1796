#include "eval/ruler/result_store.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
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
      const bool last = end + 1 == text->size();
      if (!result.has_value() && last) break;
      if (!result.has_value()) return DataLoss("%s:%d: this line is no result", path, number);
      store.Remember(*std::move(result));
      good = end + 1;
      ++number;
    }
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
  index_[{result.id, result.setting}] = results_.size();
  results_.push_back(std::move(result));
}

}  // namespace anchorage::eval::ruler
