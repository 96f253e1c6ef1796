#include "eval/prompts.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/read_file.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "eval/own_text.h"
#include "eval/random.h"

namespace anchorage::eval {
namespace {

constexpr int64_t kNumFacts = 8;
constexpr const char* kColours[] = {"amber", "azure",  "crimson", "emerald", "golden", "indigo",
                                    "ivory", "purple", "russet",  "scarlet", "silver", "violet"};
constexpr const char* kPlaces[] = {"harbour",  "library", "garden",  "station",
                                   "orchard",  "bridge",  "tower",   "market",
                                   "workshop", "cellar",  "theatre", "chapel"};

// 0 .. count - 1 in some order.
std::vector<size_t> ShuffledIndices(size_t count, Random& random) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  random.Shuffle(order);
  return order;
}

void Append(std::vector<int32_t>& to, const std::vector<int32_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// "The access code of the amber harbour is 4829173."
struct Fact {
  std::string subject;
  std::string code;

  std::string statement() const {
    return "\nThe access code of the " + subject + " is " + code + ".\n";
  }
  // Up to where the answer begins.
  std::string question() const {
    return "\nQuestion: What is the access code of the " + subject +
           "?\nAnswer: The access code of the " + subject + " is";
  }
  std::string answer() const { return " " + code; }
};

// No two alike in subject.
std::vector<Fact> MakeFacts(Random& random) {
  const std::vector<size_t> colours = ShuffledIndices(std::size(kColours), random);
  const std::vector<size_t> places = ShuffledIndices(std::size(kPlaces), random);
  std::vector<Fact> facts;
  for (size_t i = 0; i < kNumFacts; ++i) {
    facts.push_back({std::string(kColours[colours[i]]) + " " + kPlaces[places[i]],
                     std::to_string(random.Between(1'000'000, 9'999'999))});
  }
  return facts;
}

uint64_t Mix(uint64_t digest, int64_t value) {
  return Random(digest ^ static_cast<uint64_t>(value)).Next();
}

}  // namespace

uint64_t Prompt::Digest() const {
  uint64_t digest = Mix(static_cast<uint64_t>(ids.size()), seq_len);
  for (const int32_t id : ids) digest = Mix(digest, id);
  for (const AnswerSpan& answer : answers) digest = Mix(Mix(digest, answer.begin), answer.end);
  return digest;
}

absl::StatusOr<PromptSource> PromptSource::Create(const text::Tokenizer& tokenizer,
                                                  const std::vector<std::string>& texts,
                                                  uint64_t seed) {
  PromptSource source(tokenizer, seed);
  for (const std::string& text : texts) {
    source.texts_.push_back(tokenizer.Encode(text));
    source.total_ += std::ssize(source.texts_.back());
  }
  if (source.total_ == 0) return Invalid("the text is empty");
  return source;
}

// Tokens begin .. end - 1 of all texts end to end, round after round.
std::vector<int32_t> PromptSource::Piece(From from, int64_t begin, int64_t end) const {
  std::vector<int32_t> piece;
  for (int64_t at = begin / total_ * total_; at < end;) {
    Random random(seed_, absl::StrCat("round ", at / total_));
    std::vector<size_t> order = ShuffledIndices(texts_.size(), random);
    if (from == From::kBack) std::reverse(order.begin(), order.end());
    for (const size_t which : order) {
      const std::vector<int32_t>& text = texts_[which];
      const int64_t first = std::clamp<int64_t>(begin - at, 0, std::ssize(text));
      const int64_t last = std::clamp<int64_t>(end - at, 0, std::ssize(text));
      piece.insert(piece.end(), text.begin() + first, text.begin() + last);
      at += std::ssize(text);
    }
  }
  return piece;
}

absl::StatusOr<Prompt> PromptSource::Passage(std::string_view kind, int64_t index,
                                             const PromptSize& size) const {
  return Cut(From::kFront, kind, index, size);
}

absl::StatusOr<Prompt> PromptSource::Cut(From from, std::string_view kind, int64_t index,
                                         const PromptSize& size) const {
  const int64_t needed = size.seq_len + size.forced + 1;
  if (total_ < needed) {
    return Invalid(
        "there are %d tokens of text, fewer than the %d of one prompt: ask for shorter prompts or "
        "give longer texts",
        total_, needed);
  }
  Prompt prompt{.kind = std::string(kind), .index = index, .seq_len = size.seq_len};
  prompt.ids = Piece(from, index * needed, (index + 1) * needed);
  prompt.reused = (index + 1) * needed > total_;
  return prompt;
}

// The haystack with its facts at even distances, then the first question; behind the prompt the
// answer, the other questions with theirs, and text again for what is left of `forced`.
absl::StatusOr<Prompt> PromptSource::Retrieval(int64_t index, const PromptSize& size) const {
  Random random(seed_, absl::StrCat("retrieval ", index));
  const std::vector<Fact> facts = MakeFacts(random);
  std::vector<std::vector<int32_t>> statements;
  int64_t room = size.seq_len;
  for (const size_t which : ShuffledIndices(kNumFacts, random)) {
    statements.push_back(tokenizer_->Encode(facts[which].statement()));
    room -= std::ssize(statements.back());
  }
  // The token before the answer is the first that is fed to a decode step.
  std::vector<int32_t> question = tokenizer_->Encode(facts.front().question());
  room -= std::ssize(question) - 1;
  if (room < 0) {
    return Invalid("a retrieval prompt needs %d tokens or more: ask for longer ones",
                   size.seq_len - room);
  }
  // As long as if there were no facts: where a haystack begins does not depend on them.
  ASSIGN_OR_RETURN(const Prompt hay, Cut(From::kBack, "retrieval", index, size));

  Prompt prompt{.kind = "retrieval", .index = index, .seq_len = size.seq_len};
  prompt.reused = hay.reused;
  int64_t laid = 0;
  for (int64_t i = 0; i < kNumFacts; ++i) {
    const int64_t until = room * (2 * i + 1) / (2 * kNumFacts);
    prompt.ids.insert(prompt.ids.end(), hay.ids.begin() + laid, hay.ids.begin() + until);
    Append(prompt.ids, statements[i]);
    laid = until;
  }
  prompt.ids.insert(prompt.ids.end(), hay.ids.begin() + laid, hay.ids.begin() + room);

  const int64_t total = size.seq_len + size.forced + 1;
  for (const Fact& fact : facts) {
    Append(prompt.ids, tokenizer_->Encode(fact.question()));
    const int64_t begin = std::ssize(prompt.ids);
    Append(prompt.ids, tokenizer_->Encode(fact.answer()));
    if (std::ssize(prompt.ids) > total) break;
    prompt.answers.push_back({begin, std::ssize(prompt.ids)});
    Append(prompt.ids, tokenizer_->Encode("."));
  }
  if (prompt.answers.empty()) {
    return Invalid("%d forced tokens are too few for an answer: force %d or more", size.forced,
                   std::ssize(prompt.ids) - size.seq_len - 1);
  }
  prompt.ids.insert(prompt.ids.end(), hay.ids.begin() + room, hay.ids.end());
  prompt.ids.resize(static_cast<size_t>(total));
  return prompt;
}

namespace {

// Paragraphs, so that another round brings them in another order.
std::vector<std::string> Paragraphs(const std::string& text) {
  std::vector<std::string> paragraphs;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find("\n\n", begin);
    end = end == std::string::npos ? text.size() : end + 2;
    paragraphs.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return paragraphs;
}

// The sources that were asked for, each read once.
class Sources {
 public:
  Sources(const PromptRequest& request, const text::Tokenizer& tokenizer)
      : request_(request), tokenizer_(tokenizer) {}

  absl::StatusOr<Prompt> Make(const std::string& kind, int64_t index, const PromptSize& size) {
    ASSIGN_OR_RETURN(const PromptSource* const source, Of(kind != "retrieval"          ? kind
                                                          : request_.text_path.empty() ? "prose"
                                                                                       : "text"));
    absl::StatusOr<Prompt> prompt =
        kind == "retrieval" ? source->Retrieval(index, size) : source->Passage(kind, index, size);
    if (prompt.ok()) return prompt;
    return Invalid("%s: %s (--lengths, --forced, --text)", kind, prompt.status().message());
  }

 private:
  absl::StatusOr<const PromptSource*> Of(const std::string& kind) {
    for (const auto& [name, source] : sources_) {
      if (name == kind) return source.get();
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> texts, Read(kind));
    // Each collection in an order of its own.
    ASSIGN_OR_RETURN(
        PromptSource source,
        PromptSource::Create(tokenizer_, texts, Random(request_.seed, "order of " + kind).Next()));
    sources_.emplace_back(kind, std::make_unique<PromptSource>(std::move(source)));
    return sources_.back().second.get();
  }

  absl::StatusOr<std::vector<std::string>> Read(const std::string& kind) const {
    if (kind != "text") return ReadOwnFiles(kind, request_.root);
    if (request_.text_path.empty()) {
      return Invalid("--kinds: 'text' is taken from a file of yours: name it with --text");
    }
    ASSIGN_OR_RETURN(const std::string text, ReadFile(request_.text_path));
    return Paragraphs(text);
  }

  const PromptRequest& request_;
  const text::Tokenizer& tokenizer_;
  std::vector<std::pair<std::string, std::unique_ptr<PromptSource>>> sources_;
};

template <typename T>
bool StandsTwice(const std::vector<T>& values, const T& value) {
  return std::count(values.begin(), values.end(), value) > 1;
}

bool Asks(const PromptRequest& request, std::string_view kind) {
  return std::find(request.kinds.begin(), request.kinds.end(), kind) != request.kinds.end();
}

absl::Status CheckRequest(const PromptRequest& request) {
  if (request.kinds.empty()) return Invalid("--kinds names no kind of prompt");
  if (request.lengths.empty()) return Invalid("--lengths names no length");
  if (request.count < 1) return Invalid("--prompts: %d is not 1 or more", request.count);
  if (request.forced < 1) return Invalid("--forced: %d is not 1 or more", request.forced);
  for (const std::string& kind : request.kinds) {
    if (std::find(std::begin(kPromptKinds), std::end(kPromptKinds), kind) ==
        std::end(kPromptKinds)) {
      return Invalid("--kinds: '%s' is not prose, code, retrieval or text", kind);
    }
    if (StandsTwice(request.kinds, kind)) {
      return Invalid("--kinds: '%s' stands there twice", kind);
    }
  }
  if (!request.text_path.empty() && !Asks(request, "text") && !Asks(request, "retrieval")) {
    return Invalid("--text: no prompt is taken from %s: name 'text' or 'retrieval' with --kinds",
                   request.text_path);
  }
  for (const int64_t length : request.lengths) {
    if (length < 1) return Invalid("--lengths: %d is not 1 or more", length);
    if (StandsTwice(request.lengths, length)) {
      return Invalid("--lengths: %d stands there twice", length);
    }
    if (length > request.context || request.forced > request.context - length) {
      return Invalid(
          "%d tokens and %d behind them: the model's context is %d; ask for shorter --lengths or "
          "--forced",
          length, request.forced, request.context);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Prompt>> MakePrompts(const PromptRequest& request,
                                                const text::Tokenizer& tokenizer) {
  RETURN_IF_ERROR(CheckRequest(request));
  Sources sources(request, tokenizer);
  std::vector<Prompt> prompts;
  for (const int64_t length : request.lengths) {
    for (const std::string& kind : request.kinds) {
      for (int64_t index = 0; index < request.count; ++index) {
        ASSIGN_OR_RETURN(Prompt prompt, sources.Make(kind, index, {length, request.forced}));
        prompts.push_back(std::move(prompt));
      }
    }
  }
  return prompts;
}

}  // namespace anchorage::eval
