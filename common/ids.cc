#include "common/ids.h"

#include <random>

#include "absl/strings/str_format.h"

namespace anchorage {

uint64_t RandomU64() {
  static thread_local std::random_device device;
  uint64_t value = 0;
  while (value == 0) value = (uint64_t{device()} << 32) | device();
  return value;
}

BootId NewBootId() { return RandomU64(); }

std::string AttemptId::ToString() const { return absl::StrFormat("%016x/%d", request, generation); }

}  // namespace anchorage
