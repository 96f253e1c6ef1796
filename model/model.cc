#include "model/model.h"

#define XXH_STATIC_LINKING_ONLY  // the state on the stack
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "common/status.h"
#include "common/status_macros.h"
#include "kv/serialized.h"

namespace anchorage::model {
namespace {

struct MatrixInfo {
  Matrix which;
  const char* name;
};
constexpr MatrixInfo kMatrixNames[kNumMatrices] = {
    {Matrix::kQ, "attn_q"},      {Matrix::kK, "attn_k"},      {Matrix::kV, "attn_v"},
    {Matrix::kO, "attn_output"}, {Matrix::kGate, "ffn_gate"}, {Matrix::kUp, "ffn_up"},
    {Matrix::kDown, "ffn_down"}};

absl::StatusOr<kernels::WeightType> WeightTypeOf(const files::TensorView& tensor) {
  switch (tensor.type) {
    case files::TensorType::kF32:
      return kernels::WeightType::kF32;
    case files::TensorType::kF16:
      return kernels::WeightType::kF16;
    case files::TensorType::kQ4_1:
      return kernels::WeightType::kQ4_1;
    case files::TensorType::kQ8_0:
      return kernels::WeightType::kQ8_0;
    default:
      return Invalid("tensor %s is of type %s; supported: F32, F16, Q4_1, Q8_0", tensor.name,
                     files::TensorTypeName(tensor.type));
  }
}

absl::StatusOr<kernels::WeightView> FindMatrix(const files::GgufFile& file, const std::string& name,
                                               int64_t rows, int64_t cols) {
  const files::TensorView* tensor = file.FindTensor(name);
  if (tensor == nullptr) return NotFound("tensor %s is missing", name);
  ASSIGN_OR_RETURN(const kernels::WeightType type, WeightTypeOf(*tensor));
  if (tensor->dims.size() != 2 || tensor->dims[0] != cols || tensor->dims[1] != rows) {
    return Invalid("tensor %s is not %d rows of %d columns", name, rows, cols);
  }
  const int64_t row_bytes = kernels::WeightRowBytes(type, cols);
  if (row_bytes == 0 || tensor->data.size() != static_cast<size_t>(rows * row_bytes)) {
    return Invalid("tensor %s: %d columns do not fit its type's blocks", name, cols);
  }
  return kernels::WeightView{type, rows, cols, tensor->data.data()};
}

absl::StatusOr<const float*> FindVector(const files::GgufFile& file, const std::string& name,
                                        int64_t length) {
  const files::TensorView* tensor = file.FindTensor(name);
  if (tensor == nullptr) return NotFound("tensor %s is missing", name);
  if (tensor->type != files::TensorType::kF32 || tensor->num_elements() != length) {
    return Invalid("tensor %s is not %d numbers of type F32", name, length);
  }
  if (reinterpret_cast<uintptr_t>(tensor->data.data()) % alignof(float) != 0) {
    return Invalid("tensor %s is not aligned to 4 bytes", name);
  }
  return reinterpret_cast<const float*>(tensor->data.data());
}

std::string BlockTensor(int64_t layer, const char* name) {
  return absl::StrFormat("blk.%d.%s.weight", layer, name);
}

// A tensor that nothing here reads (a bias, a head norm) would silently change what the model says.
absl::Status RefuseUnknownTensors(const files::GgufFile& file, int64_t num_layers) {
  std::set<std::string> known = {"token_embd.weight", "output_norm.weight", "output.weight",
                                 "rope_freqs.weight"};
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    known.insert(BlockTensor(layer, "attn_norm"));
    known.insert(BlockTensor(layer, "ffn_norm"));
    for (const MatrixInfo& matrix : kMatrixNames) known.insert(BlockTensor(layer, matrix.name));
  }
  for (const files::TensorView& tensor : file.tensors()) {
    if (!known.contains(tensor.name)) {
      return Invalid("tensor %s has no place in this architecture", tensor.name);
    }
  }
  return absl::OkStatus();
}

class Digest {
 public:
  Digest() : state_(XXH3_createState(), XXH3_freeState) { XXH3_64bits_reset(state_.get()); }

  void Add(const void* data, size_t size) { XXH3_64bits_update(state_.get(), data, size); }
  void AddNumber(int64_t value) { Add(&value, sizeof(value)); }
  void AddText(const std::string& text) {
    AddNumber(static_cast<int64_t>(text.size()));
    Add(text.data(), text.size());
  }
  uint64_t Value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

uint64_t Fingerprint(const files::GgufFile& file, const ModelConfig& config) {
  Digest digest;
  for (const int64_t number :
       {config.num_layers, config.hidden_dim, config.num_q_heads, config.num_kv_heads,
        config.head_dim, config.ff_dim, config.vocab_size, config.context_length}) {
    digest.AddNumber(number);
  }
  digest.Add(&config.rms_eps, sizeof(config.rms_eps));
  digest.Add(&config.rope_theta, sizeof(config.rope_theta));
  std::vector<const files::TensorView*> tensors;
  for (const files::TensorView& tensor : file.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const files::TensorView* tensor : tensors) {
    digest.AddText(tensor->name);
    digest.AddNumber(static_cast<int64_t>(tensor->type));
    for (const int64_t dim : tensor->dims) digest.AddNumber(dim);
    digest.Add(tensor->data.data(), tensor->data.size());
  }
  return digest.Value();
}

}  // namespace

MatrixShape ShapeOf(const ModelConfig& config, Matrix which) {
  switch (which) {
    case Matrix::kQ:
      return {config.q_dim(), config.hidden_dim};
    case Matrix::kK:
    case Matrix::kV:
      return {config.kv_dim(), config.hidden_dim};
    case Matrix::kO:
      return {config.hidden_dim, config.q_dim()};
    case Matrix::kGate:
    case Matrix::kUp:
      return {config.ff_dim, config.hidden_dim};
    case Matrix::kDown:
      break;
  }
  return {config.hidden_dim, config.ff_dim};
}

absl::StatusOr<std::unique_ptr<const Model>> Model::Load(const std::string& path) {
  ASSIGN_OR_RETURN(files::GgufFile file, files::GgufFile::Open(path));
  auto model = FromFile(std::move(file));
  if (!model.ok()) return Annotate(model.status(), path);
  return model;
}

absl::StatusOr<std::unique_ptr<const Model>> Model::FromFile(files::GgufFile file) {
  std::unique_ptr<Model> model(new Model(std::move(file)));
  ASSIGN_OR_RETURN(model->config_, ReadConfig(model->file_));
  RETURN_IF_ERROR(model->LoadTensors());
  RETURN_IF_ERROR(model->MakeRopeTable());
  model->fingerprint_ = Fingerprint(model->file_, model->config_);
  for (const files::TensorView& tensor : model->file_.tensors()) {
    model->weight_bytes_ += static_cast<int64_t>(tensor.data.size());
  }
  for (const AlignedBuffer& buffer : model->reordered_) {
    model->weight_bytes_ += static_cast<int64_t>(buffer.size());
  }
  model->weight_bytes_ += static_cast<int64_t>(model->rope_table_.size());
  return std::unique_ptr<const Model>(std::move(model));
}

absl::Status Model::LoadTensors() {
  // Before anything is allocated for num_layers layers: their tensors must be in the file.
  layers_.reserve(std::min(static_cast<size_t>(config_.num_layers), file_.tensors().size()));
  for (int64_t index = 0; index < config_.num_layers; ++index) RETURN_IF_ERROR(LoadLayer(index));
  ASSIGN_OR_RETURN(embedding_,
                   FindMatrix(file_, "token_embd.weight", config_.vocab_size, config_.hidden_dim));
  output_ = embedding_;
  if (file_.FindTensor("output.weight") != nullptr) {
    ASSIGN_OR_RETURN(output_,
                     FindMatrix(file_, "output.weight", config_.vocab_size, config_.hidden_dim));
  }
  ASSIGN_OR_RETURN(output_norm_, FindVector(file_, "output_norm.weight", config_.hidden_dim));
  return RefuseUnknownTensors(file_, config_.num_layers);
}

absl::Status Model::LoadLayer(int64_t index) {
  LayerWeights weights;
  ASSIGN_OR_RETURN(weights.attn_norm,
                   FindVector(file_, BlockTensor(index, "attn_norm"), config_.hidden_dim));
  ASSIGN_OR_RETURN(weights.ffn_norm,
                   FindVector(file_, BlockTensor(index, "ffn_norm"), config_.hidden_dim));
  for (const MatrixInfo& matrix : kMatrixNames) {
    const MatrixShape shape = ShapeOf(config_, matrix.which);
    ASSIGN_OR_RETURN(weights.matrices[static_cast<size_t>(matrix.which)],
                     FindMatrix(file_, BlockTensor(index, matrix.name), shape.rows, shape.cols));
  }
  RETURN_IF_ERROR(
      ReorderRotaryRows(weights.matrices[static_cast<size_t>(Matrix::kQ)], config_.num_q_heads));
  RETURN_IF_ERROR(
      ReorderRotaryRows(weights.matrices[static_cast<size_t>(Matrix::kK)], config_.num_kv_heads));
  layers_.push_back(weights);
  return absl::OkStatus();
}

// Files of this architecture keep rotary pairs in neighbouring rows: row 2i + j of a head is what
// half-split order calls row j D/2 + i. Whole rows move, so quantised blocks stay intact.
absl::Status Model::ReorderRotaryRows(kernels::WeightView& weights, int64_t num_heads) {
  const int64_t row_bytes = kernels::WeightRowBytes(weights.type, weights.cols);
  AlignedBuffer buffer(static_cast<size_t>(weights.rows * row_bytes));
  if (buffer.data() == nullptr) return Exhausted("no memory for %d weight rows", weights.rows);
  const int64_t half = config_.head_dim / 2;
  for (int64_t head = 0; head < num_heads; ++head) {
    for (int64_t row = 0; row < config_.head_dim; ++row) {
      const int64_t stored = 2 * (row % half) + row / half;
      std::memcpy(buffer.data() + (head * config_.head_dim + row) * row_bytes,
                  weights.data + (head * config_.head_dim + stored) * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  }
  weights.data = buffer.data();
  reordered_.push_back(std::move(buffer));
  return absl::OkStatus();
}

absl::Status Model::MakeRopeTable() {
  const int64_t half = config_.head_dim / 2;
  const int64_t entries = config_.context_length * half;
  rope_table_ = AlignedBuffer(static_cast<size_t>(2 * entries) * sizeof(float));
  if (rope_table_.data() == nullptr) {
    return Exhausted("no memory for the rotary table of %d positions", config_.context_length);
  }
  float* cos_table = rope_table_.as<float>();
  float* sin_table = cos_table + entries;
  const std::vector<double> frequencies =
      kv::RopeFrequencies(config_.rope_theta, config_.head_dim, config_.rope_divisors);
  for (int64_t position = 0; position < config_.context_length; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequencies[static_cast<size_t>(i)];
      cos_table[position * half + i] = static_cast<float>(std::cos(angle));
      sin_table[position * half + i] = static_cast<float>(std::sin(angle));
    }
  }
  rope_ = {cos_table, sin_table, static_cast<int>(config_.head_dim), config_.context_length};
  return absl::OkStatus();
}

kv::Geometry Model::geometry() const {
  return {config_.num_layers, config_.num_kv_heads, config_.head_dim};
}

}  // namespace anchorage::model
