// What a model file says about its own shape, each number checked before anything is sized by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "files/gguf.h"

namespace anchorage::model {

// A decoder of the Llama architecture: RMSNorm, grouped-query attention with rotary positions,
// SiLU-GLU, no biases.
struct ModelConfig {
  std::string name;                  // general.name, for people
  int64_t num_layers = 0;            // 1..1024
  int64_t hidden_dim = 0;            // d
  int64_t num_q_heads = 0;           // Hq, a multiple of num_kv_heads
  int64_t num_kv_heads = 0;          // H
  int64_t head_dim = 0;              // D, a multiple of 8 in 8..512; need not be d / Hq
  int64_t ff_dim = 0;                // width of the feed-forward layer
  int64_t vocab_size = 0;            // rows of the embedding
  int64_t context_length = 0;        // positions the rotary table covers, at most 2^20
  float rms_eps = 0;                 // of every RMSNorm
  double rope_theta = 0;             // base of the rotary frequencies
  std::vector<float> rope_divisors;  // [head_dim / 2] of each frequency, or empty: none

  int64_t q_dim() const { return num_q_heads * head_dim; }
  int64_t kv_dim() const { return num_kv_heads * head_dim; }
};

// Reads the configuration of a `general.architecture = llama` file. NotFound or InvalidArgument
// names the key: missing, of a wrong type, out of bounds, in contradiction with another, or of a
// kind that is not supported (other architectures, experts, sliding windows, rope scaling by key).
absl::StatusOr<ModelConfig> ReadConfig(const files::GgufFile& file);

}  // namespace anchorage::model
