// What the router knows of the model that its workers serve: the names and numbers of the file's
// metadata, its tokenizer and its chat template. No weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "files/gguf.h"
#include "kv/plan/plan.h"
#include "router/api_error.h"
#include "router/completion_request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace anchorage::router {

using Prompt = std::variant<ChatPrompt, TextPrompt, IdsPrompt>;

class ServedModel {
 public:
  // Reads `path`. `name`: what clients call it; "": the file's name without its ending.
  static absl::StatusOr<ServedModel> Load(const std::string& path, std::string name);
  static absl::StatusOr<ServedModel> FromFile(const files::GgufFile& file, std::string name);

  const std::string& name() const { return name_; }
  const kv::Geometry& geometry() const { return geometry_; }
  int64_t context_length() const { return context_length_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

  // The prompt's ids. Errors name the field ("messages", "prompt"): the template refuses the
  // conversation, an id is outside the vocabulary, or nothing is left to start from.
  // `add_special_tokens` puts BOS first where the model wants it; absent: for text prompts alone,
  // since a chat template writes its own.
  ApiResult<std::vector<int32_t>> Tokenize(const Prompt& prompt,
                                           std::optional<bool> add_special_tokens) const;

  // Whether `id` is one of the vocabulary.
  bool IsToken(int64_t id) const { return id >= 0 && id < tokenizer_.vocab_size(); }

 private:
  ServedModel(std::string name, text::Tokenizer tokenizer)
      : name_(std::move(name)), tokenizer_(std::move(tokenizer)) {}

  std::string name_;
  kv::Geometry geometry_;
  int64_t context_length_ = 0;
  text::Tokenizer tokenizer_;
  std::optional<text::ChatTemplate> template_;
};

// The field that a prompt came from, for error messages.
const char* PromptField(const Prompt& prompt);

}  // namespace anchorage::router
