// The types of a GGUF file's metadata values, and single stored numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace anchorage::files {

enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "u32", "string", "array"; `type` must be an enumerator.
std::string_view GgufValueTypeName(GgufValueType type);

bool IsInteger(GgufValueType type);
bool IsFloat(GgufValueType type);

// Nothing for an id that GGUF does not define.
std::optional<GgufValueType> FindValueType(uint32_t id);

// Bytes of one value; 0 for strings and arrays, which have no fixed size.
uint64_t FixedSize(GgufValueType type);

// An integer of any width: whether it is negative, and its bits.
struct WideInteger {
  bool negative;
  uint64_t bits;  // two's complement
};

// Precondition: IsInteger(type).
WideInteger LoadInteger(GgufValueType type, const std::byte* from);

}  // namespace anchorage::files
