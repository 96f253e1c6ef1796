#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace anchorage::text {
namespace {

constexpr uint32_t kFirstStandIn = 0x100;
constexpr uint32_t kAlphabetEnd = kFirstStandIn + 68;

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<uint32_t, 256> MakeCharacters() {
  std::array<uint32_t, 256> characters{};
  uint32_t stand_in = kFirstStandIn;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    characters[byte] = StandsForItself(byte) ? byte : stand_in++;
  }
  return characters;
}

constexpr std::array<uint32_t, 256> kCharacters = MakeCharacters();

// The byte of each character, -1 where there is none.
constexpr std::array<int16_t, kAlphabetEnd> MakeBytes() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (int16_t byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = byte;
  return bytes;
}

constexpr std::array<int16_t, kAlphabetEnd> kBytes = MakeBytes();

}  // namespace

std::string ByteToAlphabet(uint8_t byte) {
  std::string character;
  AppendUtf8(kCharacters[byte], character);
  return character;
}

std::optional<std::string> AlphabetToBytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const CodePoint character = DecodeLenient(text, at);
    if (character.value >= kAlphabetEnd || kBytes[character.value] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[character.value]);
    at += character.size;
  }
  return bytes;
}

}  // namespace anchorage::text
