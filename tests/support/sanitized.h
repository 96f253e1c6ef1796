// Whether this build runs under AddressSanitizer or ThreadSanitizer, where a test is many times
// slower and may walk a shorter way to the same place.
#pragma once

namespace anchorage {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace anchorage
