#include "bench/own_prompt.h"

#include "common/status.h"
#include "common/status_macros.h"
#include "eval/own_text.h"
#include "text/tokenizer.h"

namespace anchorage::bench {

absl::StatusOr<std::vector<int32_t>> OwnPrompt(const model::Model& model, const std::string& kind,
                                               const std::string& root, int tokens) {
  ASSIGN_OR_RETURN(const text::Tokenizer tokenizer, text::Tokenizer::FromGguf(model.file()));
  ASSIGN_OR_RETURN(const std::string content, eval::ReadOwnText(kind, root));
  std::vector<int32_t> ids = tokenizer.Encode(content);
  if (tokens < 1 || ids.size() < static_cast<size_t>(tokens)) {
    return Invalid("--tokens: %d is not in 1..%d", tokens, ids.size());
  }
  ids.resize(static_cast<size_t>(tokens));
  return ids;
}

}  // namespace anchorage::bench
