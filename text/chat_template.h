// The model's own chat template (`tokenizer.chat_template`, Jinja), rendered for a conversation.
//
// An interpreter for the part of Jinja that chat templates use: output, if/elif/else, for with
// `loop`, set, comments, whitespace control, strings, numbers, lists, indexing and slices, `+ - * %
// ~`, comparisons, in, not, and, or, is, inline if, common filters and string methods,
// namespace(), raise_exception(). What it does not know is an error when the template is parsed or,
// for names of filters and methods, when it is rendered. Steps, nesting and output are bounded, so
// a hostile template ends in an error. Thread-safe; copies share the parsed template.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "files/gguf.h"
#include "text/text_segment.h"

namespace anchorage::text {

struct ChatMessage {
  std::string role;
  std::string content;
};

struct ChatTemplateOptions {
  std::string bos_token;                       // what `bos_token` means in the template
  std::string eos_token;                       // likewise
  size_t max_steps = 5'000'000;                // statements and expressions evaluated
  size_t max_output_bytes = size_t{64} << 20;  // also bounds every string on the way
};

class ChatTemplate {
 public:
  // InvalidArgument: a syntax error or something unsupported, with its line.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source, ChatTemplateOptions options);

  // With the file's template and its BOS and EOS tokens. NotFound: the file has no template.
  static absl::StatusOr<ChatTemplate> FromGguf(const files::GgufFile& file);

  // Roles and contents come out as user segments, everything else as template segments; adjacent
  // segments of one kind are joined. InvalidArgument: the template raised an exception, used
  // something unsupported, or hit a limit.
  absl::StatusOr<std::vector<TextSegment>> Render(std::span<const ChatMessage> messages,
                                                  bool add_generation_prompt) const;

 private:
  struct Program;
  explicit ChatTemplate(std::shared_ptr<const Program> program);

  std::shared_ptr<const Program> program_;
};

}  // namespace anchorage::text
