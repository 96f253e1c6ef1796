#include "model/head.h"

#include "common/status_macros.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kv/kernel_status.h"

namespace anchorage::model {

absl::Status ComputeLogits(const Model& model, int64_t rows, const float* hidden, float* normed,
                           float* logits, kernels::Stream& stream) {
  const ModelConfig& config = model.config();
  RETURN_IF_ERROR(
      kv::FromKernel(kernels::RmsNorm(rows, config.hidden_dim, hidden, model.output_norm(),
                                      config.rms_eps, normed, stream),
                     "RmsNorm"));
  return kv::FromKernel(kernels::Matmul(rows, normed, model.output(), logits, false, stream),
                        "Matmul");
}

}  // namespace anchorage::model
