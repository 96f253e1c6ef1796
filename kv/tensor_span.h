// A tensor inside a layer's region, by its name in the plan.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "kv/plan/plan.h"

namespace anchorage::kv {

// Keys and values are stored side by side under names that end in _k and _v.
enum class Side : uint8_t { kKey, kValue };
inline constexpr Side kSides[] = {Side::kKey, Side::kValue};

inline const char* SideName(Side side) { return side == Side::kKey ? "K" : "V"; }

// Empty when the layout has no tensor of that name. `region` must be plan.region_bytes long and
// aligned to kTensorAlignment.
template <typename T, typename Byte>
std::span<T> TensorSpan(const LayerPlan& plan, std::span<Byte> region, const char* name) {
  static_assert(std::is_const_v<T> || !std::is_const_v<Byte>, "would write to a const region");
  const TensorPlan* tensor = plan.Find(name);
  if (tensor == nullptr) return {};
  return {reinterpret_cast<T*>(region.data() + tensor->offset),
          static_cast<size_t>(tensor->bytes) / sizeof(T)};
}

template <typename T, typename Byte>
std::span<T> TensorSpan(const LayerPlan& plan, std::span<Byte> region, Side side,
                        const char* key_name, const char* value_name) {
  return TensorSpan<T>(plan, region, side == Side::kKey ? key_name : value_name);
}

}  // namespace anchorage::kv
