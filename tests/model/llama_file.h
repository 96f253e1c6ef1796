// A minimal Llama file in memory, right unless a test changes something.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "files/gguf.h"
#include "tests/files/gguf_builder.h"

namespace anchorage::model {

// 1 layer, d 32, 4/2 heads of 8, ff 64, 40 tokens, context 128; every weight is 0.5, F32.
class LlamaFile {
 public:
  std::map<std::string, uint32_t> integers = {
      {"llama.block_count", 1},          {"llama.context_length", 128},
      {"llama.embedding_length", 32},    {"llama.feed_forward_length", 64},
      {"llama.attention.head_count", 4}, {"llama.attention.head_count_kv", 2},
      {"llama.attention.key_length", 8}, {"llama.attention.value_length", 8},
      {"llama.rope.dimension_count", 8}, {"llama.vocab_size", 40},
  };
  std::map<std::string, float> reals = {{"llama.attention.layer_norm_rms_epsilon", 1e-5f},
                                        {"llama.rope.freq_base", 1e4f}};
  std::map<std::string, std::string> texts = {{"general.architecture", "llama"},
                                              {"general.name", "minimal"}};
  std::map<std::string, std::vector<int64_t>> tensors = {
      {"token_embd.weight", {32, 40}},     {"output_norm.weight", {32}},
      {"blk.0.attn_norm.weight", {32}},    {"blk.0.ffn_norm.weight", {32}},
      {"blk.0.attn_q.weight", {32, 32}},   {"blk.0.attn_k.weight", {32, 16}},
      {"blk.0.attn_v.weight", {32, 16}},   {"blk.0.attn_output.weight", {32, 32}},
      {"blk.0.ffn_gate.weight", {32, 64}}, {"blk.0.ffn_up.weight", {32, 64}},
      {"blk.0.ffn_down.weight", {64, 32}},
  };
  std::map<std::string, float> weight_of;            // of a whole tensor, where it is not 0.5
  std::map<std::string, files::TensorType> type_of;  // for bytes that stay those of F32

  // `bytes()` must outlive what is parsed.
  absl::StatusOr<files::GgufFile> Parse() {
    files::GgufBuilder builder;
    for (const auto& [key, value] : integers) builder.AddU32(key, value);
    for (const auto& [key, value] : reals) {
      builder.Add(key, files::GgufValueType::kFloat32, value);
    }
    for (const auto& [key, value] : texts) builder.AddString(key, value);
    for (const auto& [name, dims] : tensors) {
      int64_t count = 1;
      for (const int64_t dim : dims) count *= dim;
      const float weight = weight_of.contains(name) ? weight_of[name] : 0.5f;
      const std::vector<float> values(static_cast<size_t>(count), weight);
      std::string data(values.size() * sizeof(float), '\0');
      std::memcpy(data.data(), values.data(), data.size());
      const auto type = type_of.contains(name) ? type_of[name] : files::TensorType::kF32;
      builder.AddTensor(name, type, dims, data);
    }
    const std::string built = builder.Build();
    storage_.assign(built.size() / sizeof(uint64_t) + 1, 0);
    std::memcpy(storage_.data(), built.data(), built.size());
    return files::GgufFile::Parse(
        {reinterpret_cast<const std::byte*>(storage_.data()), built.size()});
  }

 private:
  std::vector<uint64_t> storage_;
};

}  // namespace anchorage::model
