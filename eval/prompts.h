// Held-out texts: prompts whose caches are compressed, each with the tokens that follow it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/tokenizer.h"

namespace anchorage::eval {

// Kinds of prompt:
//   "prose", "code"  passages of this repository's documents and comments, and of its sources
//   "text"           passages of a file of the user's
//   "retrieval"      facts hidden in prose (or in the user's text), a question at the end of the
//                    prompt, and behind it the answer and more questions with their answers
inline constexpr const char* kPromptKinds[] = {"prose", "code", "text", "retrieval"};

// Tokens ids[begin .. end) of a prompt that answer a question.
struct AnswerSpan {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const AnswerSpan&) const = default;
};

struct Prompt {
  std::string kind;
  int64_t index = 0;         // among those of its kind and length
  int64_t seq_len = 0;       // tokens whose cache is compressed
  std::vector<int32_t> ids;  // [seq_len + forced + 1]
  // The first answers the question that the prompt ends with; the others belong to questions that
  // come only after the cache is compressed. Empty but for retrieval.
  std::vector<AnswerSpan> answers;
  // Part of its text stands in an earlier prompt of its kind and length, in other order.
  bool reused = false;

  // 64-bit digest of ids and answers: equal prompts give equal results.
  uint64_t Digest() const;
};

struct PromptSize {
  int64_t seq_len = 0;
  int64_t forced = 0;  // tokens behind the prompt that are predicted from its cache
};

// Cuts prompts from one collection of texts. The texts are put in an order that the seed decides
// and laid end to end; passage i is the i-th piece of that, so that passages are disjoint. The
// haystacks of retrieval are cut in the same way from the texts in reverse order: they share
// nothing with passages until the two meet in one text. When the texts are used up they follow once
// more in another order. Thread-safe.
class PromptSource {
 public:
  // InvalidArgument: no text.
  static absl::StatusOr<PromptSource> Create(const text::Tokenizer& tokenizer,
                                             const std::vector<std::string>& texts, uint64_t seed);

  // InvalidArgument: all texts together are shorter than one passage.
  absl::StatusOr<Prompt> Passage(std::string_view kind, int64_t index,
                                 const PromptSize& size) const;

  // InvalidArgument: also when the prompt is too short for the facts or `forced` for one answer.
  absl::StatusOr<Prompt> Retrieval(int64_t index, const PromptSize& size) const;

 private:
  PromptSource(const text::Tokenizer& tokenizer, uint64_t seed)
      : tokenizer_(&tokenizer), seed_(seed) {}

  // From which end of the texts pieces are taken.
  enum class From : uint8_t { kFront, kBack };

  // Piece `index`: as many tokens as a prompt of that size and what follows it.
  absl::StatusOr<Prompt> Cut(From from, std::string_view kind, int64_t index,
                             const PromptSize& size) const;
  std::vector<int32_t> Piece(From from, int64_t begin, int64_t end) const;

  const text::Tokenizer* tokenizer_;  // outlives it
  uint64_t seed_;
  std::vector<std::vector<int32_t>> texts_;
  int64_t total_ = 0;  // tokens of all texts
};

// Which prompts to make.
struct PromptRequest {
  std::vector<std::string> kinds;
  std::vector<int64_t> lengths;  // of the compressed prompts, tokens
  int64_t count = 0;             // prompts of each kind and length
  int64_t forced = 0;
  int64_t context = 0;  // the model's, tokens: a prompt and what is forced behind it fit into it
  uint64_t seed = 0;
  std::string root;       // top folder of this repository's sources
  std::string text_path;  // a file of the user's, for "text" and as haystack; may be empty
};

// All of them, by length, then kind, then index. InvalidArgument and NotFound say what to change;
// a kind or length that stands there twice is one of that.
absl::StatusOr<std::vector<Prompt>> MakePrompts(const PromptRequest& request,
                                                const text::Tokenizer& tokenizer);

}  // namespace anchorage::eval
