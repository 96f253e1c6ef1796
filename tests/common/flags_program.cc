// Prints its flags as parsed; flags_test.cc runs it.
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "common/flags.h"

ABSL_FLAG(int, queue_size, 7, "how many may wait");
ABSL_FLAG(std::string, kv, "anchorkv", "mode");
ABSL_FLAG(bool, loud, false, "say so");
ABSL_FLAG(absl::Duration, pause, absl::Seconds(1), "a time");

int main(int argc, char** argv) {
  const auto rest = anchorage::ParseFlags("flags_program: prints its flags.", argc, argv);
  std::printf("%d %s", absl::GetFlag(FLAGS_queue_size), absl::GetFlag(FLAGS_kv).c_str());
  if (absl::GetFlag(FLAGS_loud)) std::printf(" loud");
  for (const std::string& argument : rest) std::printf(" [%s]", argument.c_str());
  std::printf("\n");
  return 0;
}
