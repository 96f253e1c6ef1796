#include "model/layer_forward.h"

#include "common/status_macros.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kv/kernel_status.h"

namespace anchorage::model {
namespace {

// out = x w^T, or out += x w^T.
absl::Status Product(const LayerMatrices& matrices, Matrix which, int64_t rows, const float* x,
                     float* out, bool accumulate, kernels::Stream& stream) {
  if (matrices.packed == nullptr) {
    return kv::FromKernel(
        kernels::Matmul(rows, x, (*matrices.stored)[which], out, accumulate, stream), "Matmul");
  }
  const kernels::PackedWeights& weights = (*matrices.packed)[which];
  return kv::FromKernel(
      kernels::Gemm(rows, x, weights.cols, weights, out, weights.rows, accumulate, stream), "Gemm");
}

}  // namespace

absl::Status ProjectQkv(const ModelConfig& config, const LayerMatrices& matrices, int64_t rows,
                        const float* hidden, LayerScratch& scratch, kernels::Stream& stream) {
  RETURN_IF_ERROR(
      kv::FromKernel(kernels::RmsNorm(rows, config.hidden_dim, hidden, matrices.stored->attn_norm,
                                      config.rms_eps, scratch.normed, stream),
                     "RmsNorm"));
  RETURN_IF_ERROR(Product(matrices, Matrix::kQ, rows, scratch.normed, scratch.q, false, stream));
  RETURN_IF_ERROR(Product(matrices, Matrix::kK, rows, scratch.normed, scratch.k, false, stream));
  return Product(matrices, Matrix::kV, rows, scratch.normed, scratch.v, false, stream);
}

absl::Status FinishLayer(const ModelConfig& config, const LayerMatrices& matrices, int64_t rows,
                         float* hidden, LayerScratch& scratch, kernels::Stream& stream) {
  RETURN_IF_ERROR(Product(matrices, Matrix::kO, rows, scratch.attention, hidden, true, stream));
  RETURN_IF_ERROR(
      kv::FromKernel(kernels::RmsNorm(rows, config.hidden_dim, hidden, matrices.stored->ffn_norm,
                                      config.rms_eps, scratch.normed, stream),
                     "RmsNorm"));
  RETURN_IF_ERROR(
      Product(matrices, Matrix::kGate, rows, scratch.normed, scratch.gate, false, stream));
  RETURN_IF_ERROR(Product(matrices, Matrix::kUp, rows, scratch.normed, scratch.up, false, stream));
  RETURN_IF_ERROR(kv::FromKernel(
      kernels::SiluMul(rows * config.ff_dim, scratch.gate, scratch.up, scratch.gate, stream),
      "SiluMul"));
  return Product(matrices, Matrix::kDown, rows, scratch.gate, hidden, true, stream);
}

}  // namespace anchorage::model
