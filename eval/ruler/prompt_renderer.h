// A task's words as the model reads them: the user's message in the model's own chat template,
// followed by the first words of the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "files/gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace anchorage::eval::ruler {

struct RenderedPrompt {
  std::string text;
  std::vector<int32_t> ids;
};

// Thread-safe. Needs no weights.
class PromptRenderer {
 public:
  // A file without a chat template is taken for a base model: its prompts are the message, a line
  // end and the cue. Errors as Tokenizer::FromGguf and ChatTemplate::FromGguf.
  static absl::StatusOr<PromptRenderer> FromGguf(const files::GgufFile& file);

  // InvalidArgument: the template refuses the message.
  absl::StatusOr<RenderedPrompt> Render(const std::string& message, std::string_view cue) const;

  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  PromptRenderer(text::Tokenizer tokenizer, std::optional<text::ChatTemplate> chat)
      : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)) {}

  text::Tokenizer tokenizer_;
  std::optional<text::ChatTemplate> chat_;
};

}  // namespace anchorage::eval::ruler
