// A piece of a prompt that knows who wrote it.
#pragma once

#include <string>

namespace anchorage::text {

// Only text written by the chat template may name special tokens: what a user typed is plain text,
// even where it spells "<|im_end|>".
struct TextSegment {
  std::string text;
  bool from_template = false;

  friend bool operator==(const TextSegment&, const TextSegment&) = default;
};

}  // namespace anchorage::text
