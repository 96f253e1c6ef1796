#include "transport/net/secret.h"

#include <cstddef>

namespace anchorage::transport {

bool SameSecret(std::string_view a, std::string_view b) {
  // Every byte of `a` is looked at whatever `b` is; volatile keeps the loop from ending early.
  volatile unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference = static_cast<unsigned char>(difference | (a[i] ^ other));
  }
  return difference == 0;
}

}  // namespace anchorage::transport
