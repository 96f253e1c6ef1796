// Answers come from an OpenAI endpoint, by POST /v1/completions, so that any server can be asked
// the same prompts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "eval/http/http_client.h"
#include "eval/ruler/answerer.h"

namespace anchorage::eval::ruler {

// How the prompt travels. Ids leave nothing to the server's tokenizer. Text is for servers that
// take no ids: they have to read special tokens in it as such.
enum class PromptForm { kIds, kText };

struct HttpAnswererOptions {
  HttpEndpoint endpoint;
  std::string model_name;
  std::string label;  // the name of its one setting
  std::string api_key;
  PromptForm form = PromptForm::kIds;
  int64_t timeout_s = 600;  // of one answer
  int max_tries = 8;        // while the server is full (429, 503) or the connection breaks
};

class HttpAnswerer : public Answerer {
 public:
  explicit HttpAnswerer(HttpAnswererOptions options) : options_(std::move(options)) {}

  std::vector<std::string> settings() const override { return {options_.label}; }

  // Of the address, the model's name there and the form of the prompt.
  uint64_t setting_fingerprint(const std::string& setting) const override;

  // Unavailable: unreachable, broken (5xx), or full for longer than all tries. InvalidArgument: the
  // server refuses the request. DataLoss: the reply is not that of a completion. The message has
  // the status and the beginning of the body.
  absl::StatusOr<std::vector<Answer>> Ask(const Sample& sample,
                                          const std::vector<std::string>& settings) override;

 private:
  absl::StatusOr<HttpReply> Post(const std::string& body) const;

  HttpAnswererOptions options_;
};

}  // namespace anchorage::eval::ruler
