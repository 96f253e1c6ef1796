#include "prefill_node/core/engine.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "prefill_node/core/prompt_run.h"

namespace anchorage::prefill {

Engine::Engine(const model::Model& model, const EngineOptions& options,
               MemoryAccountant& accountant, const Clock& clock, kernels::Stream& stream)
    : model_(model),
      options_(options),
      accountant_(accountant),
      clock_(clock),
      stream_(stream),
      compressor_(kv::MakeCompressor(options.plan)),
      weights_charge_(accountant.Add(Component::kWeights, model.weight_bytes())) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const model::Model& model,
                                                       const EngineOptions& options,
                                                       MemoryAccountant& accountant,
                                                       const Clock& clock,
                                                       kernels::Stream& stream) {
  if (options.chunk_tokens < 1) return Invalid("a chunk of %d tokens", options.chunk_tokens);
  const std::string wrong = kv::CheckPlan(model.geometry(), options.plan, 1, 0);
  if (!wrong.empty()) return Invalid("%s", wrong);
  return std::unique_ptr<Engine>(new Engine(model, options, accountant, clock, stream));
}

std::unique_ptr<Batch> Engine::Start(std::span<const PrefillRequest> requests) {
  return std::unique_ptr<Batch>(new Batch(*this, requests));
}

std::vector<PrefillResult> Engine::Run(std::span<const PrefillRequest> requests) {
  const std::unique_ptr<Batch> batch = Start(requests);
  while (!batch->done()) batch->Step();
  return batch->TakeResults();
}

absl::StatusOr<model::ActiveKv*> Engine::FitActiveKv(int64_t tokens) {
  if (tokens > working_.kv_tokens) {
    working_.kv.reset();
    working_.kv_tokens = 0;
    working_.kv_charge =
        accountant_.Add(Component::kActiveKv, model::ActiveKv::BytesFor(model_.config(), tokens));
    ASSIGN_OR_RETURN(working_.kv, model::ActiveKv::Create(model_.config(), tokens));
    working_.kv_tokens = tokens;
  }
  return &*working_.kv;
}

absl::StatusOr<model::PrefillScratch*> Engine::FitScratch(int64_t rows, int64_t tokens) {
  if (rows > working_.scratch_rows || tokens > working_.scratch_tokens) {
    rows = std::max(rows, working_.scratch_rows);
    tokens = std::max(tokens, working_.scratch_tokens);
    working_.scratch.reset();
    working_.scratch_rows = 0;
    ASSIGN_OR_RETURN(working_.scratch, model::PrefillScratch::Create(model_.config(), rows, tokens,
                                                                     stream_.num_threads()));
    working_.scratch_charge =
        accountant_.Add(Component::kChunkActivations, working_.scratch->bytes());
    working_.scratch_rows = rows;
    working_.scratch_tokens = tokens;
  }
  return &*working_.scratch;
}

absl::StatusOr<const model::PackedLayer*> Engine::Unpack(int64_t layer) {
  if (!packed_.has_value()) {
    ASSIGN_OR_RETURN(packed_, model::PackedLayer::Create(model_.config()));
    weights_charge_.Resize(model_.weight_bytes() + packed_->bytes());
  }
  RETURN_IF_ERROR(packed_->Unpack(model_, layer, stream_));
  return &*packed_;
}

absl::StatusOr<kv::CompressedLayer> Engine::Compress(const kv::LayerKv& layer,
                                                     const model::ObservedRows& observed,
                                                     const kv::LayerPlan& plan,
                                                     kernels::CodePacking packing) {
  std::shared_ptr<void> finished = accountant_.Share(Component::kFinishedLayers, plan.region_bytes);
  const int64_t workspace_bytes = compressor_->WorkspaceBytes(
      plan, static_cast<int>(model_.config().num_q_heads), stream_.num_threads());
  if (workspace_bytes > working_.workspace_charge.bytes()) {
    working_.workspace_charge = accountant_.Add(Component::kCompression, workspace_bytes);
  }
  ASSIGN_OR_RETURN(
      kv::CompressedLayer cache,
      compressor_->Compress(layer, observed.view(), plan, packing, working_.workspace, stream_));
  cache.charge = std::move(finished);
  return cache;
}

Batch::Batch(Engine& engine, std::span<const PrefillRequest> requests) : engine_(engine) {
  ++engine_.num_batches_;
  for (const PrefillRequest& request : requests) {
    prompts_.push_back(
        std::make_unique<PromptRun>(engine, request, static_cast<int64_t>(prompts_.size())));
  }
}

Batch::~Batch() {
  if (--engine_.num_batches_ == 0) engine_.working_ = Engine::WorkingSet();
}

bool Batch::done() const {
  return std::all_of(prompts_.begin(), prompts_.end(),
                     [](const auto& prompt) { return prompt->finished(); });
}

void Batch::Step() {
  if (engine_.options_.schedule != Schedule::kLayerMajor) {
    const auto next = std::find_if(prompts_.begin(), prompts_.end(),
                                   [](const auto& prompt) { return !prompt->finished(); });
    if (next != prompts_.end()) (*next)->RunResident();
    return;
  }
  const int64_t begin_ns = engine_.clock_.NowNs();
  absl::StatusOr<const model::PackedLayer*> packed = nullptr;
  for (const auto& prompt : prompts_) {
    if (!prompt->finished() && prompt->packed_products()) packed = engine_.Unpack(next_layer_);
  }
  const int64_t unpack_ns = engine_.clock_.NowNs() - begin_ns;
  for (const auto& prompt : prompts_) {
    if (!prompt->finished()) prompt->RunLayer(next_layer_, packed, unpack_ns);
  }
  if (++next_layer_ < engine_.model_.config().num_layers) return;
  for (const auto& prompt : prompts_) {
    if (!prompt->finished()) prompt->Finish();
  }
}

std::vector<PrefillResult> Batch::TakeResults() {
  std::vector<PrefillResult> results;
  for (const auto& prompt : prompts_) results.push_back(prompt->TakeResult());
  return results;
}

}  // namespace anchorage::prefill
