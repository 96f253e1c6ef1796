// A GGUF file with a tokenizer and no weights, small enough to read in a test.
#pragma once

#include <string>
#include <vector>

#include "tests/files/gguf_builder.h"
#include "text/byte_alphabet.h"

namespace anchorage::text {

// Tokens 0 to 2 are the ChatML specials, 3 to 258 the bytes, then the results of `merges` in order.
struct TinyVocabulary {
  std::string model = "gpt2";
  std::string pre = "smollm";
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types = {3, 3, 3};
  std::vector<std::string> merges;
  uint32_t bos = 1;
  uint32_t eos = 2;
  std::string chat_template;

  static constexpr int32_t kFirstByte = 3;

  TinyVocabulary() {
    for (int byte = 0; byte < 256; ++byte) {
      AddToken(ByteToAlphabet(static_cast<uint8_t>(byte)), /*type=*/1);
    }
    for (const char* merge : {"h e", "l l", "he ll", "hell o", "\xC4\xA0 hello"}) AddMerge(merge);
  }

  void AddToken(std::string name, int32_t type) {
    tokens.push_back(std::move(name));
    types.push_back(type);
  }
  void AddMerge(std::string merge) {
    std::string result = merge;
    result.erase(result.find(' '), 1);
    AddToken(std::move(result), /*type=*/1);
    merges.push_back(std::move(merge));
  }

  files::GgufBuilder Builder() const {
    files::GgufBuilder builder;
    builder.AddString("tokenizer.ggml.model", model)
        .AddString("tokenizer.ggml.pre", pre)
        .AddStrings("tokenizer.ggml.tokens", tokens)
        .AddArray<int32_t>("tokenizer.ggml.token_type", files::GgufValueType::kInt32, types)
        .AddStrings("tokenizer.ggml.merges", merges)
        .AddU32("tokenizer.ggml.bos_token_id", bos)
        .AddU32("tokenizer.ggml.eos_token_id", eos);
    if (!chat_template.empty()) builder.AddString("tokenizer.chat_template", chat_template);
    return builder;
  }
};

}  // namespace anchorage::text
