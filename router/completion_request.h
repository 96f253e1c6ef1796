// What a client asks for, after every field has been checked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/chat_template.h"

namespace anchorage::router {

enum class Endpoint { kChat, kCompletions };

// Numbers are in the ranges that the API documents; token ids are not yet held to the vocabulary.
struct SamplingRequest {
  double temperature = 1;
  double top_p = 1;
  int64_t top_k = 0;  // 0: off
  double min_p = 0;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::map<int64_t, double> logit_bias;
  std::optional<int64_t> seed;
  int64_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<int64_t> stop_token_ids;
};

struct ChatPrompt {
  std::vector<text::ChatMessage> messages;
  bool add_generation_prompt = true;
};
struct TextPrompt {
  std::string text;
};
struct IdsPrompt {
  std::vector<int64_t> ids;
};

struct CompletionRequest {
  Endpoint endpoint = Endpoint::kChat;
  std::string model;  // "": the served one
  std::variant<ChatPrompt, TextPrompt, IdsPrompt> prompt;
  std::optional<bool> add_special_tokens;  // absent: as the endpoint does
  SamplingRequest sampling;
  std::optional<int64_t> max_tokens;  // >= 1
  std::vector<std::string> stop;      // none is empty
  bool stream = false;
  bool include_usage = false;     // a usage chunk at the end of the stream
  bool return_token_ids = false;  // vLLM's field: the answer names its tokens and the prompt's
  bool skip_special_tokens = true;
};

}  // namespace anchorage::router
