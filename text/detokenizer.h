// Token ids to text, one at a time: emits only whole characters.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace anchorage::text {

// One per stream. A token may end inside a character; its bytes are held back until the character
// is whole. What can never become valid is replaced by U+FFFD. `tokenizer` must outlive this
// object.
class Detokenizer {
 public:
  // Control tokens (EOS, ...) yield no text unless `show_control`.
  explicit Detokenizer(const Tokenizer* tokenizer, bool show_control = false)
      : tokenizer_(tokenizer), show_control_(show_control) {}

  // The text that `id` completes, possibly none. Always valid UTF-8.
  std::string Push(int32_t id) {
    if (!show_control_ && tokenizer_->IsControl(id)) return {};
    return stream_.Push(tokenizer_->TokenBytes(id));
  }

  // At the end of the stream: U+FFFD for an unfinished character, else nothing.
  std::string Finish() { return stream_.Finish(); }

 private:
  const Tokenizer* tokenizer_;
  bool show_control_;
  Utf8Stream stream_;
};

}  // namespace anchorage::text
