#include "common/bytes.h"

#include <cmath>
#include <cstdlib>
#include <iterator>

#include "common/status.h"

namespace anchorage {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"", 1},         {"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                           {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},     {"MB", 1e6},
                           {"GB", 1e9},     {"TB", 1e12}};

}  // namespace

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  const std::string copy(text);
  const size_t digits = copy.find_first_not_of("0123456789.");
  const std::string number = copy.substr(0, digits);
  const std::string unit = digits == std::string::npos ? "" : copy.substr(digits);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (!number.empty() && *end == '\0') {
    for (const Unit& known : kUnits) {
      const double bytes = value * known.bytes;
      if (unit == known.name && bytes <= 0x1p62) return static_cast<int64_t>(std::llround(bytes));
    }
  }
  return Invalid("'%s' is not a size: write a number and a unit, such as 512MiB or 8GiB", copy);
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < std::size(kNames)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%d B", bytes);
  return absl::StrFormat("%.1f %s", value, kNames[unit]);
}

absl::StatusOr<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return Invalid("%d x %d overflows 64 bits", a, b);
  return product;
}

}  // namespace anchorage
