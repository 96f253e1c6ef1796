#include "eval/ruler/score.h"

#include <algorithm>

namespace anchorage::eval::ruler {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool Contains(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](char a, char b) { return Lower(a) == Lower(b); }) != text.end();
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string FirstDigits(std::string_view answer) {
  std::string packed;
  for (const char c : answer) {
    if (std::string_view(" \t\r\n\v\f").find(c) == std::string_view::npos) packed += c;
  }
  const auto begin = std::find_if(packed.begin(), packed.end(), IsDigit);
  return std::string(begin, std::find_if_not(begin, packed.end(), IsDigit));
}

}  // namespace

double Score(Metric metric, std::string_view answer, std::span<const std::string> refs) {
  if (refs.empty()) return 0;
  if (metric == Metric::kPasskey) return FirstDigits(answer) == refs.front() ? 1 : 0;
  const auto found = std::count_if(
      refs.begin(), refs.end(), [answer](const std::string& ref) { return Contains(answer, ref); });
  if (metric == Metric::kAnyRef) return found > 0 ? 1 : 0;
  return static_cast<double>(found) / static_cast<double>(refs.size());
}

int64_t DigitPrefix(std::string_view answer, std::string_view key) {
  const std::string digits = FirstDigits(answer);
  const auto [at, in_key] = std::mismatch(digits.begin(), digits.end(), key.begin(), key.end());
  return at - digits.begin();
}

}  // namespace anchorage::eval::ruler
