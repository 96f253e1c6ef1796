// How the numbers of a stored tensor are packed. The ids are those of GGUF.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace anchorage::files {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
};

// One block holds `block_elements` neighbours along dims[0] in `block_bytes` bytes.
struct TensorTypeInfo {
  TensorType type;
  std::string_view name;  // "Q4_1"
  int64_t block_elements;
  int64_t block_bytes;
};

// Nothing for an id that GGUF does not define.
std::optional<TensorTypeInfo> FindTensorType(uint32_t id);

// "Q4_1"; `type` must be an enumerator.
std::string_view TensorTypeName(TensorType type);

}  // namespace anchorage::files
