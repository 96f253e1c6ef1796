// Text to token ids and back, with the vocabulary and merges of the model file itself.
//
// Byte-level BPE of the GPT-2 kind (Radford et al. 2019, after Sennrich et al., arXiv 1508.07909):
// text is cut into words by the pre-tokeniser that the file names, each word's bytes become
// symbols, and adjacent symbols merge by rank, lowest rank first, leftmost first. Encoding n bytes
// takes O(n log n) time whatever the text. Invalid UTF-8 is read as one U+FFFD per offending byte.
// Needs no weights. Thread-safe; copies share the tables.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "files/gguf.h"
#include "text/text_segment.h"

namespace anchorage::text {

class Tokenizer {
 public:
  // Copies what it needs; `file` may be closed afterwards. NotFound or InvalidArgument: a key is
  // missing, has a wrong type, or the vocabulary contradicts itself (merges of unknown tokens,
  // special ids out of range, ...). Unsupported tokenisers are InvalidArgument, with the supported
  // ones named.
  static absl::StatusOr<Tokenizer> FromGguf(const files::GgufFile& file);

  int vocab_size() const;

  // `text` as a user typed it: special tokens in it stay plain text. Adds no BOS.
  std::vector<int32_t> Encode(std::string_view text) const;

  // The same, but "<|im_start|>" and its like become their single id. Never for users' text.
  std::vector<int32_t> EncodeWithSpecials(std::string_view text) const;

  // A rendered chat template: specials are recognised inside template segments only. Adjacent plain
  // text is merged across segments before BPE, so the ids equal those of the whole text at once.
  std::vector<int32_t> EncodeSegments(std::span<const TextSegment> segments) const;

  // The bytes that a token stands for, a control token's being its name. Empty when out of range.
  std::string_view TokenBytes(int32_t id) const;

  // Bytes of all tokens, which need not be valid UTF-8; control tokens are left out on demand.
  std::string Decode(std::span<const int32_t> ids, bool skip_control) const;

  // The id of a token by its name in the file, such as "<|im_end|>".
  std::optional<int32_t> FindToken(std::string_view name) const;

  bool IsControl(int32_t id) const;
  bool IsStop(int32_t id) const;

  // Tokens that end a generation: EOS and the end-of-turn tokens of the vocabulary, ascending.
  std::span<const int32_t> stop_ids() const;

  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> unk_id() const;
  std::optional<int32_t> pad_id() const;

  // Whether the model wants BOS put before a prompt (a chat template may already have done so).
  bool add_bos() const;

 private:
  struct Tables;
  explicit Tokenizer(std::shared_ptr<const Tables> tables);

  std::shared_ptr<const Tables> tables_;
};

}  // namespace anchorage::text
