#include "eval/ruler/prompt_renderer.h"

#include "common/status_macros.h"
#include "text/text_segment.h"

namespace anchorage::eval::ruler {

absl::StatusOr<PromptRenderer> PromptRenderer::FromGguf(const files::GgufFile& file) {
  ASSIGN_OR_RETURN(text::Tokenizer tokenizer, text::Tokenizer::FromGguf(file));
  absl::StatusOr<text::ChatTemplate> chat = text::ChatTemplate::FromGguf(file);
  if (absl::IsNotFound(chat.status())) return PromptRenderer(std::move(tokenizer), std::nullopt);
  if (!chat.ok()) return chat.status();
  return PromptRenderer(std::move(tokenizer), *std::move(chat));
}

absl::StatusOr<RenderedPrompt> PromptRenderer::Render(const std::string& message,
                                                      std::string_view cue) const {
  std::vector<text::TextSegment> segments;
  if (chat_.has_value()) {
    const text::ChatMessage turn{"user", message};
    ASSIGN_OR_RETURN(segments, chat_->Render({&turn, 1}, /*add_generation_prompt=*/true));
  } else {
    segments.push_back({message + "\n", /*from_template=*/false});
  }
  segments.push_back({std::string(cue), /*from_template=*/false});
  RenderedPrompt prompt;
  for (const text::TextSegment& segment : segments) prompt.text += segment.text;
  prompt.ids = tokenizer_.EncodeSegments(segments);
  if (!chat_.has_value() && tokenizer_.add_bos() && tokenizer_.bos_id().has_value()) {
    prompt.ids.insert(prompt.ids.begin(), *tokenizer_.bos_id());
  }
  return prompt;
}

}  // namespace anchorage::eval::ruler
