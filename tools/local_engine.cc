#include "tools/local_engine.h"

#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/ids.h"
#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::tools {
namespace {

// A decode node's memory is bounded by its operator; here only by the machine.
constexpr int64_t kNoLimitBytes = int64_t{1} << 50;

// Puts a layer's bytes where a transfer would have put them.
class LandingSink : public kv::LayerSink {
 public:
  LandingSink(decode::Engine& engine, AttemptId attempt, uint64_t nonce, int64_t num_layers,
              kv::LayerSink* copy)
      : engine_(engine), attempt_(attempt), nonce_(nonce), num_layers_(num_layers), copy_(copy) {}

  absl::Status OnLayer(int layer, kv::CompressedLayer&& cache) override {
    const decode::LayerAnnouncement announcement{.attempt = attempt_,
                                                 .nonce = nonce_,
                                                 .layer = layer,
                                                 .num_layers = num_layers_,
                                                 .length = cache.region.size(),
                                                 .checksum = cache.checksum};
    ASSIGN_OR_RETURN(const decode::RunningLanding landing, engine_.Announce(announcement));
    std::memcpy(landing.region.data(), cache.region.data(), cache.region.size());
    const std::optional<decode::LandedLayer> landed =
        engine_.Quiet(landing.token, absl::OkStatus());
    if (!landed.has_value()) return absl::AbortedError("the attempt has ended");
    RETURN_IF_ERROR(engine_.Verify(landing.token, *landed));
    return copy_ == nullptr ? absl::OkStatus() : copy_->OnLayer(layer, std::move(cache));
  }

 private:
  decode::Engine& engine_;
  const AttemptId attempt_;
  const uint64_t nonce_;
  const int64_t num_layers_;
  kv::LayerSink* const copy_;
};

}  // namespace

// Sorts the decode engine's tokens to the requests of the current run.
class LocalEngine::Listener : public decode::EngineListener {
 public:
  struct Stream {
    const LocalRequest* request = nullptr;
    LocalResult* result = nullptr;
  };

  void Follow(AttemptId id, Stream stream) { streams_[id] = stream; }
  void Forget() {
    streams_.clear();
    failure_ = absl::OkStatus();
  }
  const absl::Status& failure() const { return failure_; }

  void OnToken(AttemptId id, int64_t index, int32_t token, model::Finish finish) override {
    const Stream& stream = streams_.at(id);
    stream.result->finish = finish;
    if (index == 0) return;  // prefill has shown it already
    stream.result->tokens.push_back(token);
    if (stream.request->on_token) stream.request->on_token(token);
  }
  void OnEnded(AttemptId, const absl::Status& status, const char*) override { failure_ = status; }
  void OnJoin(int64_t) override {}
  void OnStep(int64_t, int64_t) override {}

 private:
  std::unordered_map<AttemptId, Stream> streams_;
  absl::Status failure_;
};

LocalEngine::LocalEngine(const model::Model& model, const Clock& clock, int threads)
    : model_(model), clock_(clock), stream_(threads), listener_(std::make_unique<Listener>()) {}

LocalEngine::~LocalEngine() = default;

absl::StatusOr<std::unique_ptr<LocalEngine>> LocalEngine::Create(const model::Model& model,
                                                                 const LocalOptions& options,
                                                                 const Clock& clock) {
  std::unique_ptr<LocalEngine> engine(new LocalEngine(model, clock, options.threads));
  ASSIGN_OR_RETURN(
      engine->prefill_,
      prefill::Engine::Create(model, options.prefill, engine->accountant_, clock, engine->stream_));
  const decode::EngineOptions decode_options{
      .kv_limit_bytes = kNoLimitBytes, .lease_ns = int64_t{1} << 60, .plan = options.prefill.plan};
  ASSIGN_OR_RETURN(engine->decode_,
                   decode::Engine::Create(model, options.prefill.model_stop_ids, decode_options,
                                          clock, engine->stream_, *engine->listener_));
  return engine;
}

// One request between its reservation and its end.
struct LocalEngine::Attempt {
  AttemptId id;
  uint64_t nonce = 0;
  const LocalRequest* request = nullptr;
  LocalResult result;
  std::unique_ptr<LandingSink> sink;
};

absl::StatusOr<LocalResult> LocalEngine::Run(const LocalRequest& request) {
  ASSIGN_OR_RETURN(std::vector<LocalResult> results, RunTogether({&request, 1}));
  return std::move(results.front());
}

absl::StatusOr<std::vector<LocalResult>> LocalEngine::RunTogether(
    std::span<const LocalRequest> requests) {
  std::vector<Attempt> attempts(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) attempts[i].request = &requests[i];
  const absl::Status status = RunStages(attempts);
  // After an error some may still hold memory; those that have ended do not mind.
  for (const Attempt& attempt : attempts) decode_->Cancel(attempt.id);
  while (decode_->RunStep()) {
  }
  listener_->Forget();
  if (!status.ok()) return status;
  std::vector<LocalResult> results;
  for (Attempt& attempt : attempts) results.push_back(std::move(attempt.result));
  return results;
}

absl::Status LocalEngine::RunStages(std::span<Attempt> attempts) {
  for (Attempt& attempt : attempts) RETURN_IF_ERROR(Reserve(attempt));
  RETURN_IF_ERROR(Prefill(attempts));
  const int64_t begin_ns = clock_.NowNs();
  while (decode_->RunStep()) {
  }
  for (Attempt& attempt : attempts) attempt.result.decode_ns = clock_.NowNs() - begin_ns;
  return listener_->failure();
}

absl::Status LocalEngine::Reserve(Attempt& attempt) {
  const LocalRequest& request = *attempt.request;
  attempt.id = {.request = next_request_++, .generation = 1};
  decode::SequenceRequest sequence;
  sequence.id = attempt.id;
  sequence.request_id = "local";
  sequence.prompt_tokens = static_cast<int64_t>(request.prompt_ids.size());
  sequence.max_new = request.max_new;
  sequence.sampling = request.sampling;
  if (request.sampling.NeedsPromptIds()) sequence.prompt_ids = request.prompt_ids;
  const int64_t before = decode_->usage().headroom_bytes();
  const decode::ReserveAnswer answer = decode_->Reserve(std::move(sequence));
  RETURN_IF_ERROR(answer.status);
  attempt.nonce = answer.nonce;
  attempt.result.arena_bytes = before - decode_->usage().headroom_bytes();
  attempt.sink = std::make_unique<LandingSink>(*decode_, attempt.id, attempt.nonce,
                                               model_.config().num_layers, request.copy);
  listener_->Follow(attempt.id, {&request, &attempt.result});
  return absl::OkStatus();
}

absl::Status LocalEngine::Prefill(std::span<Attempt> attempts) {
  std::vector<prefill::PrefillRequest> prompts;
  for (const Attempt& attempt : attempts) {
    prefill::PrefillRequest& prompt = prompts.emplace_back();
    prompt.prompt_ids = attempt.request->prompt_ids;
    prompt.sampling = attempt.request->sampling;
    prompt.packing = decode::kCodePacking;
    prompt.sink = attempt.sink.get();
  }
  std::vector<prefill::PrefillResult> prefilled = prefill_->Run(prompts);
  for (size_t i = 0; i < attempts.size(); ++i) {
    const LocalRequest& request = *attempts[i].request;
    LocalResult& result = attempts[i].result;
    result.prefill = std::move(prefilled[i]);
    RETURN_IF_ERROR(result.prefill.status);
    const int32_t token = result.prefill.first_token;
    result.tokens.push_back(token);
    if (request.on_token) request.on_token(token);
    result.finish = model::FinishAfter(request.sampling, prefill_->options().model_stop_ids, token,
                                       1, request.max_new);
    if (result.finish != model::Finish::kNone) continue;  // nothing to decode
    RETURN_IF_ERROR(decode_->Close(attempts[i].id, attempts[i].nonce, token));
  }
  return absl::OkStatus();
}

}  // namespace anchorage::tools
