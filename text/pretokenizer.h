// Cuts text into the words that BPE works on.
#pragma once

#include <cstddef>
#include <string_view>

namespace anchorage::text {

// The end of the word that begins at `begin` < text.size(), by the rule named "smollm": every
// number character \p{N} is a word of its own and ends the text for the rest of the rule, which is
// GPT-2's:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// The space before a word belongs to it; of a longer run of whitespace all but the last character
// come first. `text` is the output of RewriteLenient. Linear over all words of a text.
size_t EndOfWord(std::string_view text, size_t begin);

}  // namespace anchorage::text
