#include "eval/ruler/http_answerer.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/status.h"
#include "common/status_macros.h"
#include "eval/ruler/fingerprint.h"

namespace anchorage::eval::ruler {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownBytes = 600;  // of a body in an error message
constexpr int64_t kLongestWaitS = 30;

std::string RequestBody(const HttpAnswererOptions& options, const Sample& sample) {
  Json body = {{"model", options.model_name},
               {"max_tokens", sample.key.task.max_tokens},
               {"temperature", 0},
               {"stream", false}};
  if (options.form == PromptForm::kIds) {
    body["prompt"] = sample.prompt.ids;
  } else {
    body["prompt"] = sample.prompt.text;
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Answer> ParseCompletion(const std::string& label, const std::string& body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer text("/choices/0/text");
  if (json.is_discarded() || !json.contains(text) || !json[text].is_string()) {
    return DataLoss("the reply is not a completion: %s", body.substr(0, kShownBytes));
  }
  Answer answer;
  answer.setting = label;
  answer.text = json[text].get<std::string>();
  const Json::json_pointer tokens("/usage/completion_tokens");
  if (json.contains(tokens) && json[tokens].is_number_integer()) {
    answer.answer_tokens = json[tokens].get<int64_t>();
  }
  return answer;
}

bool IsFull(const HttpReply& reply) { return reply.status == 429 || reply.status == 503; }

bool MayComeLater(const absl::StatusOr<HttpReply>& reply) {
  return reply.ok() ? IsFull(*reply) : absl::IsUnavailable(reply.status());
}

}  // namespace

uint64_t HttpAnswerer::setting_fingerprint(const std::string&) const {
  return FingerprintOf(options_.endpoint.ToString() + "\n" + options_.model_name +
                       (options_.form == PromptForm::kIds ? "\nids" : "\ntext"));
}

absl::StatusOr<HttpReply> HttpAnswerer::Post(const std::string& body) const {
  for (int tries = 1;; ++tries) {
    absl::StatusOr<HttpReply> reply =
        PostJson(options_.endpoint, "/completions", body, options_.api_key, options_.timeout_s);
    if (!MayComeLater(reply) || tries >= options_.max_tries) return reply;
    const int64_t asked_s = reply.ok() ? reply->retry_after_s : 0;
    std::this_thread::sleep_for(
        std::chrono::seconds(std::clamp<int64_t>(asked_s, 1, kLongestWaitS)));
  }
}

absl::StatusOr<std::vector<Answer>> HttpAnswerer::Ask(const Sample& sample,
                                                      const std::vector<std::string>& settings) {
  if (settings != this->settings()) return Internal("an endpoint has one setting");
  ASSIGN_OR_RETURN(const HttpReply reply, Post(RequestBody(options_, sample)));
  const std::string where = options_.endpoint.ToString() + "/completions";
  if (reply.status != 200) {
    const std::string shown = reply.body.substr(0, kShownBytes);
    if (IsFull(reply) || reply.status >= 500) {
      return Unavailable("%s: status %d: %s", where, reply.status, shown);
    }
    return Invalid("%s: status %d: %s", where, reply.status, shown);
  }
  absl::StatusOr<Answer> answer = ParseCompletion(options_.label, reply.body);
  if (!answer.ok()) return Annotate(answer.status(), where);
  return std::vector<Answer>{*std::move(answer)};
}

}  // namespace anchorage::eval::ruler
