// A model file, mapped into memory, with every tensor checked and ready for the kernels. Weights
// stay in the precision in which they are stored.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/aligned_buffer.h"
#include "files/gguf.h"
#include "kernels/types.h"
#include "kv/plan/plan.h"
#include "model/config.h"

namespace anchorage::model {

// The matrices of a layer. Rows are outputs.
enum class Matrix : uint8_t {
  kQ,     // [Hq D, d]
  kK,     // [H D, d]
  kV,     // [H D, d]
  kO,     // [d, Hq D]
  kGate,  // [ff, d]
  kUp,    // [ff, d]
  kDown,  // [d, ff]
};
inline constexpr size_t kNumMatrices = 7;

struct MatrixShape {
  int64_t rows = 0;
  int64_t cols = 0;
};
MatrixShape ShapeOf(const ModelConfig& config, Matrix which);

// One layer as it is stored. Rows of Q and K are in the order of half-split rotary pairs
// (x[j], x[j + D/2]), whatever order the file has.
struct LayerWeights {
  const float* attn_norm = nullptr;  // [d]
  const float* ffn_norm = nullptr;   // [d]
  std::array<kernels::WeightView, kNumMatrices> matrices;

  const kernels::WeightView& operator[](Matrix which) const {
    return matrices[static_cast<size_t>(which)];
  }
};

// Immutable and thread-safe once loaded.
class Model {
 public:
  // Maps `path`. NotFound: no such file. InvalidArgument: the file is not a model this code can
  // run; the message names the key or tensor. ResourceExhausted: no memory for the rotary table.
  static absl::StatusOr<std::unique_ptr<const Model>> Load(const std::string& path);

  // The same of a file that is already open.
  static absl::StatusOr<std::unique_ptr<const Model>> FromFile(files::GgufFile file);

  const ModelConfig& config() const { return config_; }
  const LayerWeights& layer(int64_t index) const { return layers_[static_cast<size_t>(index)]; }
  const kernels::WeightView& embedding() const { return embedding_; }  // [vocab, d]
  const kernels::WeightView& output() const { return output_; }        // [vocab, d]; may be tied
  const float* output_norm() const { return output_norm_; }            // [d]
  const kernels::RopeView& rope() const { return rope_; }              // context_length positions

  // What the KV cache's plan needs to know.
  kv::Geometry geometry() const;

  // Digest of everything that decides what the model computes: the tensors' bytes and shapes, the
  // configuration and the rotary table. Equal on two machines exactly when the same prompt means
  // the same cache.
  uint64_t fingerprint() const { return fingerprint_; }

  // Bytes of the mapped tensors and of what was made beside them.
  int64_t weight_bytes() const { return weight_bytes_; }

  // The file itself, for its tokenizer and chat template.
  const files::GgufFile& file() const { return file_; }

 private:
  explicit Model(files::GgufFile file) : file_(std::move(file)) {}

  absl::Status LoadTensors();
  absl::Status LoadLayer(int64_t index);
  absl::Status ReorderRotaryRows(kernels::WeightView& weights, int64_t num_heads);
  absl::Status MakeRopeTable();

  files::GgufFile file_;
  ModelConfig config_;
  std::vector<LayerWeights> layers_;
  kernels::WeightView embedding_;
  kernels::WeightView output_;
  const float* output_norm_ = nullptr;
  std::vector<AlignedBuffer> reordered_;  // Q and K of every layer, rows in half-split order
  AlignedBuffer rope_table_;              // cos, then sin
  kernels::RopeView rope_;
  uint64_t fingerprint_ = 0;
  int64_t weight_bytes_ = 0;
};

}  // namespace anchorage::model
