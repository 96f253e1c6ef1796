#include "files/gguf_value.h"

#include "files/gguf_cursor.h"

namespace anchorage::files {

std::string_view GgufValueTypeName(GgufValueType type) {
  static constexpr std::string_view kNames[] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                "i32", "f32", "bool", "string", "array",
                                                "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

bool IsInteger(GgufValueType type) {
  switch (type) {
    case GgufValueType::kFloat32:
    case GgufValueType::kFloat64:
    case GgufValueType::kBool:
    case GgufValueType::kString:
    case GgufValueType::kArray:
      return false;
    default:
      return true;
  }
}

bool IsFloat(GgufValueType type) {
  return type == GgufValueType::kFloat32 || type == GgufValueType::kFloat64;
}

std::optional<GgufValueType> FindValueType(uint32_t id) {
  if (id > static_cast<uint32_t>(GgufValueType::kFloat64)) return std::nullopt;
  return static_cast<GgufValueType>(id);
}

uint64_t FixedSize(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    case GgufValueType::kString:
    case GgufValueType::kArray:
      return 0;
  }
  return 0;
}

WideInteger LoadInteger(GgufValueType type, const std::byte* from) {
  const auto from_signed = [](int64_t value) {
    return WideInteger{value < 0, static_cast<uint64_t>(value)};
  };
  switch (type) {
    case GgufValueType::kUint8:
      return WideInteger{false, Load<uint8_t>(from)};
    case GgufValueType::kUint16:
      return WideInteger{false, Load<uint16_t>(from)};
    case GgufValueType::kUint32:
      return WideInteger{false, Load<uint32_t>(from)};
    case GgufValueType::kUint64:
      return WideInteger{false, Load<uint64_t>(from)};
    case GgufValueType::kInt8:
      return from_signed(Load<int8_t>(from));
    case GgufValueType::kInt16:
      return from_signed(Load<int16_t>(from));
    case GgufValueType::kInt32:
      return from_signed(Load<int32_t>(from));
    default:
      return from_signed(Load<int64_t>(from));
  }
}

}  // namespace anchorage::files
