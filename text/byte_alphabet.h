// The GPT-2 byte alphabet: each byte has a printable character, in which vocabularies are written.
//
// Bytes that are printable in Latin-1 stand for themselves; the other 68 are, in ascending order,
// U+0100 to U+0143 (space is U+0120, newline U+010A).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace anchorage::text {

// The character of `byte`, in UTF-8.
std::string ByteToAlphabet(uint8_t byte);

// The bytes that `text` spells. Nothing if a character is not of the alphabet.
std::optional<std::string> AlphabetToBytes(std::string_view text);

}  // namespace anchorage::text
