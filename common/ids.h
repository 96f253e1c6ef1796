// Who is who: every process has a boot id, every attempt at a request a generation. Both travel in
// every message, so that nothing stale is ever mistaken for something current.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace anchorage {

// Random, drawn once when the process starts; never 0.
using BootId = uint64_t;
BootId NewBootId();

// 64 random bits from the system, for nonces and seeds. Never 0.
uint64_t RandomU64();

// One attempt at one request. `request` is unique for the router's lifetime (its boot id is mixed
// in), `generation` counts the attempts from 1.
struct AttemptId {
  uint64_t request = 0;
  uint32_t generation = 0;

  auto operator<=>(const AttemptId&) const = default;
  std::string ToString() const;  // "00f3a9…/2": what logs print
};

}  // namespace anchorage

template <>
struct std::hash<anchorage::AttemptId> {
  size_t operator()(const anchorage::AttemptId& id) const noexcept {
    return std::hash<uint64_t>()(id.request * 0x9E3779B97F4A7C15ull + id.generation);
  }
};
