#include "prefill_node/core/prompt_run.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "model/decode_layer.h"
#include "model/head.h"

namespace anchorage::prefill {

PromptRun::PromptRun(Engine& engine, const PrefillRequest& request, int64_t index)
    : engine_(engine),
      request_(request),
      index_(index),
      seq_len_(static_cast<int64_t>(request.prompt_ids.size())),
      begin_ns_(engine.clock_.NowNs()) {
  if (absl::Status begun = Begin(); !begun.ok()) End(begun);
}

absl::Status PromptRun::Begin() {
  const model::ModelConfig& config = engine_.model_.config();
  if (seq_len_ < 1) return Invalid("the prompt is empty");
  if (seq_len_ > config.context_length) {
    return Invalid("the prompt has %d tokens, the model's context %d", seq_len_,
                   config.context_length);
  }
  if (request_.logit_rows < 0 || request_.logit_rows > seq_len_) {
    return Invalid("logits of %d rows of a prompt of %d", request_.logit_rows, seq_len_);
  }
  RETURN_IF_ERROR(model::CheckSampling(request_.sampling, config.vocab_size));
  const kv::Geometry geometry = engine_.model_.geometry();
  const std::string wrong = kv::CheckPlan(geometry, engine_.options_.plan, seq_len_, 0);
  if (!wrong.empty()) return Invalid("%s", wrong);
  plan_ = kv::PlanRequest(geometry, engine_.options_.plan, seq_len_, 0);
  result_.layers.resize(static_cast<size_t>(config.num_layers));

  whole_bridge_ = engine_.options_.schedule == Schedule::kLayerMajor || request_.keep_hidden ||
                  request_.logit_rows > 1;
  bridge_rows_ = whole_bridge_ ? seq_len_ : chunk_rows();
  const int64_t bytes = bridge_rows_ * config.hidden_dim * static_cast<int64_t>(sizeof(float));
  bridge_charge_ = engine_.accountant_.Add(Component::kHiddenBridge, bytes);
  bridge_ = AlignedBuffer(static_cast<size_t>(bytes));
  if (bridge_.data() == nullptr) return Exhausted("no memory for %d hidden states", bridge_rows_);
  if (!whole_bridge_) return absl::OkStatus();  // embedded chunk by chunk
  return model::EmbedTokens(engine_.model_, request_.prompt_ids.data(), seq_len_,
                            bridge_.as<float>());
}

int64_t PromptRun::chunk_rows() const {
  if (engine_.options_.schedule == Schedule::kOneShot) return seq_len_;
  return std::min(seq_len_, engine_.options_.chunk_tokens);
}

float* PromptRun::HiddenSlot(int64_t start) {
  return bridge_.as<float>() + (whole_bridge_ ? start : 0) * engine_.model_.config().hidden_dim;
}

void PromptRun::RunLayer(int64_t layer, const absl::StatusOr<const model::PackedLayer*>& packed,
                         int64_t unpack_ns) {
  if (packed_products() && !packed.ok()) return End(packed.status());
  result_.layers[static_cast<size_t>(layer)].unpack_ns = unpack_ns;
  if (absl::Status ran = RunChunks(layer, packed_products() ? *packed : nullptr); !ran.ok()) {
    End(ran);
  }
}

absl::Status PromptRun::RunChunks(int64_t layer, const model::PackedLayer* packed) {
  const int64_t begin_ns = engine_.clock_.NowNs();
  ASSIGN_OR_RETURN(model::ActiveKv * kv, engine_.FitActiveKv(seq_len_));
  ASSIGN_OR_RETURN(model::PrefillScratch * scratch, engine_.FitScratch(chunk_rows(), seq_len_));
  RETURN_IF_ERROR(kv->Begin(seq_len_));
  ASSIGN_OR_RETURN(model::ObservedRows observed, NewObservedRows(layer));
  const MemoryAccountant::Charge charge =
      engine_.accountant_.Add(Component::kCompression, observed.bytes());
  for (int64_t start = 0; start < seq_len_; start += chunk_rows()) {
    RETURN_IF_ERROR(RunChunk(layer, start, packed, *kv, observed, *scratch));
  }
  result_.layers[static_cast<size_t>(layer)].compute_ns = engine_.clock_.NowNs() - begin_ns;
  return EndLayer(layer, *kv, observed);
}

absl::Status PromptRun::RunChunk(int64_t layer, int64_t start, const model::PackedLayer* packed,
                                 model::ActiveKv& kv, model::ObservedRows& observed,
                                 model::PrefillScratch& scratch) {
  RETURN_IF_ERROR(CheckCancelled());
  const int64_t rows = std::min(chunk_rows(), seq_len_ - start);
  const model::LayerMatrices matrices{&engine_.model_.layer(layer), packed};
  RETURN_IF_ERROR(model::PrefillChunk(engine_.model_, matrices, start, rows, HiddenSlot(start), kv,
                                      observed, scratch, engine_.stream_));
  engine_.Observe({ScheduleEvent::Kind::kChunkDone, index_, layer, start + rows});
  return absl::OkStatus();
}

absl::StatusOr<model::ObservedRows> PromptRun::NewObservedRows(int64_t layer) const {
  return model::ObservedRows::Create(engine_.model_.config(), seq_len_,
                                     plan_.layers[static_cast<size_t>(layer)].window_len);
}

absl::Status PromptRun::EndLayer(int64_t layer, const model::ActiveKv& kv,
                                 const model::ObservedRows& observed) {
  const int64_t begin_ns = engine_.clock_.NowNs();
  const kv::LayerKv layer_kv{static_cast<int>(layer), kv.view(), engine_.model_.rope()};
  ASSIGN_OR_RETURN(kv::CompressedLayer cache,
                   engine_.Compress(layer_kv, observed, plan_.layers[static_cast<size_t>(layer)],
                                    request_.packing));
  result_.compressed_bytes += cache.plan.bytes;
  result_.layers[static_cast<size_t>(layer)].compress_ns = engine_.clock_.NowNs() - begin_ns;
  if (seq_len_ < kSendAtEndTokens) {
    held_.push_back(std::move(cache));
  } else {
    RETURN_IF_ERROR(HandOver(std::move(cache)));
  }
  engine_.Observe({ScheduleEvent::Kind::kLayerDone, index_, layer, seq_len_});
  return absl::OkStatus();
}

absl::Status PromptRun::HandOver(kv::CompressedLayer&& cache) {
  if (request_.sink == nullptr) return absl::OkStatus();
  const int layer = cache.layer;
  return request_.sink->OnLayer(layer, std::move(cache));
}

void PromptRun::RunResident() {
  if (absl::Status ran = ResidentLayers(); !ran.ok()) {
    End(ran);
  } else {
    Finish();
  }
}

absl::Status PromptRun::ResidentLayers() {
  const model::ModelConfig& config = engine_.model_.config();
  std::vector<model::ActiveKv> kv;
  std::vector<model::ObservedRows> observed;
  std::vector<MemoryAccountant::Charge> charges;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    ASSIGN_OR_RETURN(kv.emplace_back(), model::ActiveKv::Create(config, seq_len_));
    RETURN_IF_ERROR(kv.back().Begin(seq_len_));
    ASSIGN_OR_RETURN(observed.emplace_back(), NewObservedRows(layer));
    charges.push_back(engine_.accountant_.Add(Component::kActiveKv, kv.back().bytes()));
    charges.push_back(engine_.accountant_.Add(Component::kCompression, observed.back().bytes()));
  }
  ASSIGN_OR_RETURN(model::PrefillScratch * scratch, engine_.FitScratch(chunk_rows(), seq_len_));
  for (int64_t start = 0; start < seq_len_; start += chunk_rows()) {
    if (!whole_bridge_) {
      RETURN_IF_ERROR(model::EmbedTokens(engine_.model_, request_.prompt_ids.data() + start,
                                         std::min(chunk_rows(), seq_len_ - start),
                                         HiddenSlot(start)));
    }
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      const int64_t begin_ns = engine_.clock_.NowNs();
      const model::PackedLayer* packed = nullptr;
      if (packed_products()) {
        ASSIGN_OR_RETURN(packed, engine_.Unpack(layer));
      }
      LayerTiming& timing = result_.layers[static_cast<size_t>(layer)];
      const int64_t unpacked_ns = engine_.clock_.NowNs();
      RETURN_IF_ERROR(RunChunk(layer, start, packed, kv[static_cast<size_t>(layer)],
                               observed[static_cast<size_t>(layer)], *scratch));
      timing.unpack_ns += unpacked_ns - begin_ns;
      timing.compute_ns += engine_.clock_.NowNs() - unpacked_ns;
    }
  }
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    RETURN_IF_ERROR(CheckCancelled());
    RETURN_IF_ERROR(
        EndLayer(layer, kv[static_cast<size_t>(layer)], observed[static_cast<size_t>(layer)]));
  }
  return absl::OkStatus();
}

absl::Status PromptRun::CheckCancelled() const {
  if (request_.cancelled != nullptr && request_.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the prefill was cancelled");
  }
  return absl::OkStatus();
}

void PromptRun::Finish() {
  for (kv::CompressedLayer& cache : held_) {
    if (absl::Status taken = HandOver(std::move(cache)); !taken.ok()) return End(taken);
  }
  End(SampleFirst());
}

absl::Status PromptRun::SampleFirst() {
  const model::ModelConfig& config = engine_.model_.config();
  const int64_t rows = std::max<int64_t>(1, request_.logit_rows);
  const int64_t in_bridge = (seq_len_ - 1) % bridge_rows_ + 1;  // rows of the last chunk, or all
  const float* hidden = bridge_.as<float>() + (in_bridge - rows) * config.hidden_dim;
  std::vector<float> normed(static_cast<size_t>(rows * config.hidden_dim));
  std::vector<float> logits(static_cast<size_t>(rows * config.vocab_size));
  RETURN_IF_ERROR(model::ComputeLogits(engine_.model_, rows, hidden, normed.data(), logits.data(),
                                       engine_.stream_));
  if (request_.logit_rows > 0) result_.logits = logits;
  const model::SamplingContext context{.prompt_ids = request_.prompt_ids,
                                       .generated_ids = {},
                                       .model_stop_ids = engine_.options_.model_stop_ids,
                                       .position = seq_len_};
  const std::span<float> last(logits.data() + (rows - 1) * config.vocab_size,
                              static_cast<size_t>(config.vocab_size));
  ASSIGN_OR_RETURN(result_.first_token, model::SampleToken(request_.sampling, context, last));
  return absl::OkStatus();
}

void PromptRun::End(const absl::Status& status) {
  finished_ = true;
  result_.status = status;
  result_.total_ns = engine_.clock_.NowNs() - begin_ns_;
  held_.clear();
  if (status.ok() && request_.keep_hidden) result_.hidden = std::move(bridge_);
  bridge_ = AlignedBuffer();
  bridge_charge_.Resize(0);
  engine_.Observe({ScheduleEvent::Kind::kPromptDone, index_, 0, seq_len_});
}

}  // namespace anchorage::prefill
