#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/pretokenizer.h"
#include "text/utf8.h"

// Encoding has two levels. A text is first cut at special tokens (those that its author may name);
// each plain piece between them is then cut into words. Most words of real text are one token, so a
// word is looked up whole before BPE is run; the lookup holds only tokens that BPE itself gives for
// their bytes, so the shortcut never changes the result.

namespace anchorage::text {
namespace {

using files::GgufFile;

constexpr size_t kMaxTokenBytes = 1 << 16;
constexpr std::string_view kSupportedModel = "gpt2";
constexpr std::string_view kSupportedPre = "smollm";

// Values of `tokenizer.ggml.token_type`.
enum class TokenKind : int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Names of control tokens that end a turn, in the vocabularies of common models.
constexpr std::string_view kStopNames[] = {
    "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
    "<|end|>",       "</s>",       "<EOT>",      "<|EOT|>",    "<end_of_turn>",
};

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

std::string Escaped(std::string_view text) { return absl::CHexEscape(ToAbsl(text.substr(0, 80))); }

absl::Status CheckSupported(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view model, file.GetString("tokenizer.ggml.model"));
  if (model != kSupportedModel) {
    return Invalid("tokenizer.ggml.model is '%s'; only '%s' (byte-level BPE) is supported",
                   Escaped(model), kSupportedModel);
  }
  ASSIGN_OR_RETURN(const std::string_view pre, file.GetString("tokenizer.ggml.pre"));
  if (pre != kSupportedPre) {
    return Invalid("tokenizer.ggml.pre is '%s'; only '%s' is supported", Escaped(pre),
                   kSupportedPre);
  }
  return absl::OkStatus();
}

// A special id that may be absent but not out of range.
absl::StatusOr<std::optional<int32_t>> ReadSpecialId(const GgufFile& file, std::string_view key,
                                                     size_t vocab_size) {
  if (!file.HasKey(key)) return std::nullopt;
  ASSIGN_OR_RETURN(const uint32_t id, file.GetU32(key));
  if (id >= vocab_size) {
    return Invalid("%s is %d, but the vocabulary has %d tokens", key, id, vocab_size);
  }
  return static_cast<int32_t>(id);
}

}  // namespace

struct Tokenizer::Tables {
  struct Token {
    std::string name;   // as in the file
    std::string bytes;  // what it stands for
    TokenKind kind = TokenKind::kNormal;
  };

  std::vector<Token> tokens;
  absl::flat_hash_map<absl::string_view, int32_t> by_name;      // views into `tokens`
  absl::flat_hash_map<absl::string_view, int32_t> whole_words;  // by bytes; views into `tokens`
  std::array<int32_t, 256> byte_symbols;                        // -1: the vocabulary has none
  MergeTable merges;

  // What a piece of text may name. `first_bytes` spares the lookups at most positions.
  struct SpecialSet {
    absl::flat_hash_map<absl::string_view, int32_t> ids;  // views into `tokens`
    std::vector<size_t> sizes;                            // distinct, longest first
    std::array<bool, 256> first_bytes{};

    void Add(std::string_view name, int32_t id);

    struct Match {
      size_t begin;
      size_t size;
      int32_t id;
    };
    // The leftmost and there longest one at or after `from`.
    std::optional<Match> FindNext(std::string_view text, size_t from) const;
  };
  SpecialSet user_specials;      // user-defined tokens: anyone may type them
  SpecialSet template_specials;  // those and control tokens

  std::vector<int32_t> stop_ids;
  std::optional<int32_t> bos_id, eos_id, unk_id, pad_id;
  bool add_bos = false;

  absl::Status ReadTokens(const GgufFile& file);
  absl::Status ReadMerges(const GgufFile& file);
  absl::Status ReadSpecialIds(const GgufFile& file);
  void FindWholeWords();

  std::optional<int32_t> Find(std::string_view name) const {
    const auto found = by_name.find(ToAbsl(name));
    if (found == by_name.end()) return std::nullopt;
    return found->second;
  }
  bool IsControl(int32_t id) const {
    const TokenKind kind = tokens[id].kind;
    return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
  }
  std::vector<int32_t> Symbols(std::string_view word) const;
  void EncodePlain(std::string_view text, std::vector<int32_t>& ids) const;
};

void Tokenizer::Tables::SpecialSet::Add(std::string_view name, int32_t id) {
  if (name.empty()) return;
  ids.emplace(ToAbsl(name), id);
  first_bytes[static_cast<unsigned char>(name[0])] = true;
  const auto at = std::lower_bound(sizes.begin(), sizes.end(), name.size(), std::greater<>());
  if (at == sizes.end() || *at != name.size()) sizes.insert(at, name.size());
}

std::optional<Tokenizer::Tables::SpecialSet::Match> Tokenizer::Tables::SpecialSet::FindNext(
    std::string_view text, size_t from) const {
  if (ids.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes[static_cast<unsigned char>(text[begin])]) continue;
    for (const size_t size : sizes) {
      if (size > text.size() - begin) continue;
      const auto found = ids.find(ToAbsl(text.substr(begin, size)));
      if (found != ids.end()) return Match{begin, size, found->second};
    }
  }
  return std::nullopt;
}

absl::Status Tokenizer::Tables::ReadTokens(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> names,
                   file.GetStringArray("tokenizer.ggml.tokens"));
  if (names.empty() || names.size() > std::numeric_limits<int32_t>::max()) {
    return Invalid("tokenizer.ggml.tokens has %d tokens", names.size());
  }
  std::vector<int32_t> kinds(names.size(), static_cast<int32_t>(TokenKind::kNormal));
  if (file.HasKey("tokenizer.ggml.token_type")) {
    ASSIGN_OR_RETURN(kinds, file.GetI32Array("tokenizer.ggml.token_type"));
  }
  if (kinds.size() != names.size()) {
    return Invalid("tokenizer.ggml.token_type has %d values for %d tokens", kinds.size(),
                   names.size());
  }
  if (file.HasKey("tokenizer.ggml.scores")) {
    ASSIGN_OR_RETURN(const std::vector<float> scores, file.GetF32Array("tokenizer.ggml.scores"));
    if (scores.size() != names.size()) {
      return Invalid("tokenizer.ggml.scores has %d values for %d tokens", scores.size(),
                     names.size());
    }
  }
  tokens.resize(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i];
    if (name.size() > kMaxTokenBytes) {
      return Invalid("token %d is %d bytes long; at most %d are allowed", i, name.size(),
                     kMaxTokenBytes);
    }
    if (!IsValidUtf8(name) || name.find('\0') != std::string_view::npos) {
      return Invalid("token %d ('%s') is not valid UTF-8 or contains NUL", i, Escaped(name));
    }
    if (kinds[i] < 0 || kinds[i] > static_cast<int32_t>(TokenKind::kByte)) {
      return Invalid("token %d ('%s') has unknown type %d", i, Escaped(name), kinds[i]);
    }
    Token& token = tokens[i];
    token.name = std::string(name);
    token.kind = static_cast<TokenKind>(kinds[i]);
    const std::optional<std::string> spelled =
        token.kind == TokenKind::kNormal ? AlphabetToBytes(name) : std::nullopt;
    token.bytes = spelled.value_or(token.name);
    const int32_t id = static_cast<int32_t>(i);
    if (!by_name.emplace(ToAbsl(token.name), id).second) {
      return Invalid("token %d ('%s') appears twice", i, Escaped(name));
    }
    if (token.kind == TokenKind::kUserDefined) user_specials.Add(token.name, id);
    if (token.kind == TokenKind::kUserDefined || IsControl(id)) {
      template_specials.Add(token.name, id);
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::optional<int32_t> id = Find(ByteToAlphabet(static_cast<uint8_t>(byte)));
    byte_symbols[byte] = id && tokens[*id].kind == TokenKind::kNormal ? *id : -1;
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::Tables::ReadMerges(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> lines,
                   file.GetStringArray("tokenizer.ggml.merges"));
  for (size_t rank = 0; rank < lines.size(); ++rank) {
    const std::string_view line = lines[rank];
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos) {
      return Invalid("merge %d ('%s') is not two tokens with a space between", rank, Escaped(line));
    }
    const std::string_view left = line.substr(0, space);
    const std::string_view right = line.substr(space + 1);
    const std::optional<int32_t> left_id = Find(left);
    const std::optional<int32_t> right_id = Find(right);
    const std::optional<int32_t> result = Find(std::string(left) + std::string(right));
    if (!left_id || !right_id || !result) {
      return Invalid("merge %d ('%s') names or makes a token that the vocabulary lacks", rank,
                     Escaped(line));
    }
    if (IsControl(*result)) {
      return Invalid("merge %d ('%s') makes a control token, which text must never do", rank,
                     Escaped(line));
    }
    if (!merges.Add(*left_id, *right_id, {static_cast<uint32_t>(rank), *result})) {
      return Invalid("merge %d ('%s') appears twice", rank, Escaped(line));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::Tables::ReadSpecialIds(const GgufFile& file) {
  const size_t size = tokens.size();
  ASSIGN_OR_RETURN(bos_id, ReadSpecialId(file, "tokenizer.ggml.bos_token_id", size));
  ASSIGN_OR_RETURN(eos_id, ReadSpecialId(file, "tokenizer.ggml.eos_token_id", size));
  ASSIGN_OR_RETURN(unk_id, ReadSpecialId(file, "tokenizer.ggml.unknown_token_id", size));
  ASSIGN_OR_RETURN(pad_id, ReadSpecialId(file, "tokenizer.ggml.padding_token_id", size));
  ASSIGN_OR_RETURN(const std::optional<int32_t> eot_id,
                   ReadSpecialId(file, "tokenizer.ggml.eot_token_id", size));
  if (file.HasKey("tokenizer.ggml.add_bos_token")) {
    ASSIGN_OR_RETURN(add_bos, file.GetBool("tokenizer.ggml.add_bos_token"));
  }
  if (add_bos && !bos_id) {
    return Invalid("tokenizer.ggml.add_bos_token is true, but there is no bos_token_id");
  }
  if (eos_id) stop_ids.push_back(*eos_id);
  if (eot_id) stop_ids.push_back(*eot_id);
  for (const std::string_view name : kStopNames) {
    const std::optional<int32_t> id = Find(name);
    if (id && IsControl(*id)) stop_ids.push_back(*id);
  }
  std::sort(stop_ids.begin(), stop_ids.end());
  stop_ids.erase(std::unique(stop_ids.begin(), stop_ids.end()), stop_ids.end());
  return absl::OkStatus();
}

std::vector<int32_t> Tokenizer::Tables::Symbols(std::string_view word) const {
  std::vector<int32_t> symbols(word.size());
  for (size_t i = 0; i < word.size(); ++i) {
    symbols[i] = byte_symbols[static_cast<unsigned char>(word[i])];
  }
  return symbols;
}

void Tokenizer::Tables::FindWholeWords() {
  BpeMerger merger(&merges);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind != TokenKind::kNormal) continue;
    const std::span<const int32_t> ids = merger.Merge(Symbols(tokens[i].bytes));
    if (ids.size() == 1 && ids[0] == static_cast<int32_t>(i)) {
      whole_words.emplace(ToAbsl(tokens[i].bytes), ids[0]);
    }
  }
}

void Tokenizer::Tables::EncodePlain(std::string_view text, std::vector<int32_t>& ids) const {
  const std::string rewritten = RewriteLenient(text);
  const std::string_view words = rewritten;
  BpeMerger merger(&merges);
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = EndOfWord(words, begin);
    const std::string_view word = words.substr(begin, end - begin);
    begin = end;
    const auto whole = whole_words.find(ToAbsl(word));
    if (whole != whole_words.end()) {
      ids.push_back(whole->second);
      continue;
    }
    // Bytes that the vocabulary cannot spell are left out, as llama.cpp does.
    for (const int32_t id : merger.Merge(Symbols(word))) {
      if (id >= 0) ids.push_back(id);
    }
  }
}

absl::StatusOr<Tokenizer> Tokenizer::FromGguf(const GgufFile& file) {
  RETURN_IF_ERROR(CheckSupported(file));
  auto tables = std::make_shared<Tables>();
  RETURN_IF_ERROR(tables->ReadTokens(file));
  RETURN_IF_ERROR(tables->ReadMerges(file));
  RETURN_IF_ERROR(tables->ReadSpecialIds(file));
  tables->FindWholeWords();
  return Tokenizer(std::move(tables));
}

Tokenizer::Tokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}

int Tokenizer::vocab_size() const { return static_cast<int>(tables_->tokens.size()); }

std::vector<int32_t> Tokenizer::Encode(std::string_view text) const {
  const TextSegment segment = {std::string(text), /*from_template=*/false};
  return EncodeSegments({&segment, 1});
}

std::vector<int32_t> Tokenizer::EncodeWithSpecials(std::string_view text) const {
  const TextSegment segment = {std::string(text), /*from_template=*/true};
  return EncodeSegments({&segment, 1});
}

std::vector<int32_t> Tokenizer::EncodeSegments(std::span<const TextSegment> segments) const {
  std::vector<int32_t> ids;
  std::string plain;
  for (const TextSegment& segment : segments) {
    const std::string_view text = segment.text;
    const Tables::SpecialSet& specials =
        segment.from_template ? tables_->template_specials : tables_->user_specials;
    size_t at = 0;
    while (const auto match = specials.FindNext(text, at)) {
      plain += text.substr(at, match->begin - at);
      tables_->EncodePlain(plain, ids);
      plain.clear();
      ids.push_back(match->id);
      at = match->begin + match->size;
    }
    plain += text.substr(at);
  }
  tables_->EncodePlain(plain, ids);
  return ids;
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return tables_->tokens[id].bytes;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_control) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!(skip_control && IsControl(id))) bytes += TokenBytes(id);
  }
  return bytes;
}

std::optional<int32_t> Tokenizer::FindToken(std::string_view name) const {
  return tables_->Find(name);
}

bool Tokenizer::IsControl(int32_t id) const {
  return id >= 0 && id < vocab_size() && tables_->IsControl(id);
}

bool Tokenizer::IsStop(int32_t id) const {
  return std::binary_search(tables_->stop_ids.begin(), tables_->stop_ids.end(), id);
}

std::span<const int32_t> Tokenizer::stop_ids() const { return tables_->stop_ids; }
std::optional<int32_t> Tokenizer::bos_id() const { return tables_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return tables_->eos_id; }
std::optional<int32_t> Tokenizer::unk_id() const { return tables_->unk_id; }
std::optional<int32_t> Tokenizer::pad_id() const { return tables_->pad_id; }
bool Tokenizer::add_bos() const { return tables_->add_bos; }

}  // namespace anchorage::text
