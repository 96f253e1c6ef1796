// A number for a text that other texts are very unlikely to share.
#pragma once

#include <cstdint>
#include <string_view>

namespace anchorage::eval::ruler {

// FNV-1a.
inline uint64_t FingerprintOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace anchorage::eval::ruler
