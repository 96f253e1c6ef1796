// Token ids in, text out: whole characters only, and nothing of a stop string.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace anchorage::router {

class TextStream {
 public:
  TextStream(const text::Tokenizer* tokenizer, std::span<const std::string> stops,
             bool show_control)
      : detokenizer_(tokenizer, show_control), stops_(stops) {}

  // The text that may be shown now. Nothing any more once stopped().
  std::string Push(int32_t id) { return stops_.Push(detokenizer_.Push(id)); }
  // At the end: what was held back and is not part of a stop string after all. May find one.
  std::string Finish() {
    std::string rest = stops_.Push(detokenizer_.Finish());
    return stops_.stopped() ? rest : rest + stops_.Finish();
  }
  bool stopped() const { return stops_.stopped(); }

 private:
  text::Detokenizer detokenizer_;
  text::StopMatcher stops_;
};

}  // namespace anchorage::router
