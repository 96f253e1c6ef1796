#include "model/config.h"

#include <cmath>
#include <cstring>

#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::model {
namespace {

constexpr char kArchitecture[] = "llama";
constexpr int64_t kMaxContext = int64_t{1} << 20;

std::string Key(const char* name) { return absl::StrFormat("%s.%s", kArchitecture, name); }

absl::StatusOr<int64_t> ReadBounded(const files::GgufFile& file, const std::string& key,
                                    int64_t min, int64_t max) {
  ASSIGN_OR_RETURN(const int64_t value, file.GetI64(key));
  if (value < min || value > max) {
    return Invalid("%s is %d, not in %d..%d", key, value, min, max);
  }
  return value;
}

absl::StatusOr<int64_t> ReadBoundedOr(const files::GgufFile& file, const std::string& key,
                                      int64_t fallback, int64_t min, int64_t max) {
  if (!file.HasKey(key)) return fallback;
  return ReadBounded(file, key, min, max);
}

absl::StatusOr<double> ReadReal(const files::GgufFile& file, const std::string& key, double min,
                                double max) {
  ASSIGN_OR_RETURN(const float value, file.GetF32(key));
  if (!(value >= min && value <= max)) {
    return Invalid("%s is %g, not in %g..%g", key, value, min, max);
  }
  return double{value};
}

// What would change the arithmetic, and this code does not compute.
absl::Status RefuseUnsupported(const files::GgufFile& file, int64_t context_length) {
  ASSIGN_OR_RETURN(const int64_t experts,
                   ReadBoundedOr(file, Key("expert_count"), 0, 0, int64_t{1} << 32));
  if (experts > 0) {
    return Invalid("%s is %d: mixtures of experts are not supported", Key("expert_count"), experts);
  }
  ASSIGN_OR_RETURN(const int64_t window,
                   ReadBoundedOr(file, Key("attention.sliding_window"), 0, 0, int64_t{1} << 32));
  if (window > 0 && window < context_length) {
    return Invalid("%s is %d: sliding windows are not supported", Key("attention.sliding_window"),
                   window);
  }
  const std::string scaling = Key("rope.scaling.type");
  if (file.HasKey(scaling)) {
    ASSIGN_OR_RETURN(const std::string_view type, file.GetString(scaling));
    if (type != "none") {
      return Invalid("%s is '%s': only rope_freqs.weight may scale the rotary frequencies", scaling,
                     type);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadHeads(const files::GgufFile& file, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.num_q_heads, ReadBounded(file, Key("attention.head_count"), 1, 1024));
  ASSIGN_OR_RETURN(config.num_kv_heads, ReadBoundedOr(file, Key("attention.head_count_kv"),
                                                      config.num_q_heads, 1, config.num_q_heads));
  if (config.num_q_heads % config.num_kv_heads != 0) {
    return Invalid("%s %d is not a multiple of %s %d", Key("attention.head_count"),
                   config.num_q_heads, Key("attention.head_count_kv"), config.num_kv_heads);
  }
  const std::string key_length = Key("attention.key_length");
  if (!file.HasKey(key_length) && config.hidden_dim % config.num_q_heads != 0) {
    return Invalid("%s is missing and %s is not a multiple of %s", key_length,
                   Key("embedding_length"), Key("attention.head_count"));
  }
  ASSIGN_OR_RETURN(config.head_dim,
                   ReadBoundedOr(file, key_length, config.hidden_dim / config.num_q_heads, 8, 512));
  if (config.head_dim < 8 || config.head_dim > 512 || config.head_dim % 8 != 0) {
    return Invalid("%s is %d, not a multiple of 8 in 8..512", key_length, config.head_dim);
  }
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
    ASSIGN_OR_RETURN(const int64_t value,
                     ReadBoundedOr(file, Key(name), config.head_dim, 1, int64_t{1} << 20));
    if (value != config.head_dim) {
      return Invalid("%s is %d, the head dimension %d: only equal ones are supported", Key(name),
                     value, config.head_dim);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRopeDivisors(const files::GgufFile& file, ModelConfig& config) {
  const files::TensorView* tensor = file.FindTensor("rope_freqs.weight");
  if (tensor == nullptr) return absl::OkStatus();
  if (tensor->type != files::TensorType::kF32 || tensor->num_elements() != config.head_dim / 2) {
    return Invalid("rope_freqs.weight is not %d numbers of type F32", config.head_dim / 2);
  }
  config.rope_divisors.resize(static_cast<size_t>(config.head_dim / 2));
  std::memcpy(config.rope_divisors.data(), tensor->data.data(), tensor->data.size());
  for (const float divisor : config.rope_divisors) {
    if (!(divisor > 0) || !std::isfinite(divisor)) {
      return Invalid("rope_freqs.weight holds %g, which divides no frequency", divisor);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadVocabulary(const files::GgufFile& file, ModelConfig& config) {
  const files::TensorView* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) return NotFound("tensor token_embd.weight is missing");
  if (embedding->dims.size() != 2) return Invalid("token_embd.weight is no matrix");
  config.vocab_size = embedding->dims[1];
  if (config.vocab_size > int64_t{1} << 24) {
    return Invalid("token_embd.weight has %d rows, more than 2^24", config.vocab_size);
  }
  ASSIGN_OR_RETURN(const int64_t stated,
                   ReadBoundedOr(file, Key("vocab_size"), config.vocab_size, 1, int64_t{1} << 24));
  if (stated != config.vocab_size) {
    return Invalid("%s is %d, but token_embd.weight has %d rows", Key("vocab_size"), stated,
                   config.vocab_size);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadConfig(const files::GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view architecture, file.GetString("general.architecture"));
  if (architecture != kArchitecture) {
    return Invalid("general.architecture is '%s'; supported: %s", architecture, kArchitecture);
  }
  ModelConfig config;
  config.name = "unnamed";
  if (file.HasKey("general.name")) {
    ASSIGN_OR_RETURN(config.name, file.GetString("general.name"));
  }
  ASSIGN_OR_RETURN(config.num_layers, ReadBounded(file, Key("block_count"), 1, 1024));
  ASSIGN_OR_RETURN(config.context_length, ReadBounded(file, Key("context_length"), 1, kMaxContext));
  ASSIGN_OR_RETURN(config.hidden_dim, ReadBounded(file, Key("embedding_length"), 1, 1 << 20));
  ASSIGN_OR_RETURN(config.ff_dim, ReadBounded(file, Key("feed_forward_length"), 1, 1 << 22));
  RETURN_IF_ERROR(ReadHeads(file, config));
  ASSIGN_OR_RETURN(const double eps, ReadReal(file, Key("attention.layer_norm_rms_epsilon"), 0, 1));
  config.rms_eps = static_cast<float>(eps);
  config.rope_theta = 10000;
  if (file.HasKey(Key("rope.freq_base"))) {
    ASSIGN_OR_RETURN(config.rope_theta, ReadReal(file, Key("rope.freq_base"), 1, 1e12));
  }
  RETURN_IF_ERROR(ReadRopeDivisors(file, config));
  RETURN_IF_ERROR(ReadVocabulary(file, config));
  RETURN_IF_ERROR(RefuseUnsupported(file, config.context_length));
  return config;
}

}  // namespace anchorage::model
