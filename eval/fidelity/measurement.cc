#include "eval/fidelity/measurement.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "decode_node/core/arena.h"
#include "decode_node/core/sequence.h"
#include "eval/next_token.h"

namespace anchorage::eval {
namespace {

constexpr int64_t kArenaBytes = int64_t{1} << 40;  // more than the machine has

// log p of each answer's tokens, added up as they are forced.
class Answers {
 public:
  explicit Answers(const std::vector<AnswerSpan>& spans)
      : spans_(spans), log_p_(spans.size(), 0.0) {}

  void Add(int64_t at, double log_p) {
    for (size_t i = 0; i < spans_.size(); ++i) {
      if (spans_[i].begin <= at && at < spans_[i].end) log_p_[i] += log_p;
    }
  }

  void Store(CandidateResult& result) const {
    if (log_p_.empty()) return;
    result.answer = log_p_.front();
    if (log_p_.size() == 1) return;
    result.later_answers = std::accumulate(log_p_.begin() + 1, log_p_.end(), 0.0) /
                           static_cast<double>(log_p_.size() - 1);
  }

 private:
  const std::vector<AnswerSpan>& spans_;
  std::vector<double> log_p_;
};

// What the forced tokens say about one cache.
struct Tally {
  Agreement agreement;
  Answers answers;

  void Store(CandidateResult& result) const {
    result.kl = agreement.mean_divergence();
    result.js = agreement.mean_symmetric();
    result.top1 = agreement.top1();
    result.surprise = agreement.mean_surprise();
    answers.Store(result);
  }
};

}  // namespace

absl::StatusOr<Measurement> Measurement::Create(const model::Model& model,
                                                std::vector<Candidate> candidates,
                                                int64_t probe_rows, kernels::Stream& stream) {
  if (candidates.empty() || std::ssize(candidates) > decode::kMaxStepRows) {
    return Invalid(
        "%d caches at once: between 1 and %d can be compared; take fewer --methods or "
        "--ratios",
        candidates.size(), decode::kMaxStepRows);
  }
  if (probe_rows < 1) return Invalid("--probe-rows: %d is not 1 or more", probe_rows);
  Measurement measurement(model, std::move(candidates), probe_rows, stream);
  ASSIGN_OR_RETURN(measurement.step_, decode::BatchStep::Create(model, {}, stream));
  return measurement;
}

std::string Measurement::setting() const {
  nlohmann::ordered_json json = {
      {"model", model_->config().name},
      {"model_fingerprint", absl::StrFormat("%016x", model_->fingerprint())},
      {"probe_rows", probe_rows_},
      {"candidates", nlohmann::ordered_json::object()}};
  for (const Candidate& candidate : candidates_) {
    json["candidates"][candidate.name()] =
        absl::StrFormat("%016x", kv::PlanFingerprint(model_->geometry(), candidate.options));
  }
  return json.dump();
}

absl::Status Measurement::Check(const Prompt& prompt) const {
  const int64_t context = model_->config().context_length;
  const int64_t forced = std::ssize(prompt.ids) - 1 - prompt.seq_len;
  if (prompt.seq_len + forced > context) {
    return Invalid(
        "%d tokens and %d behind them: the model's context is %d; ask for shorter --lengths or "
        "--forced",
        prompt.seq_len, forced, context);
  }
  for (const Candidate& candidate : candidates_) {
    const kv::PlanOptions options =
        candidate.ablation ? PlanOf(*candidate.ablation, candidate.options) : candidate.options;
    const std::string wrong = kv::CheckPlan(model_->geometry(), options, prompt.seq_len, forced);
    if (!wrong.empty()) return Invalid("%s: %s", candidate.name(), wrong);
  }
  return absl::OkStatus();
}

absl::StatusOr<PromptResult> Measurement::Run(const Prompt& prompt) {
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(Check(prompt));
  decode::Arena arena(kArenaBytes);
  ASSIGN_OR_RETURN(std::vector<CandidateCache> caches, MakeCaches(prompt, arena));
  AttentionProbe probe(*model_, caches, probe_rows_);
  const std::span<const int32_t> fed(prompt.ids.data(), prompt.ids.size() - 1);
  ASSIGN_OR_RETURN(const std::vector<float> prefilled,
                   PrefillOnce(*model_, fed, prompt.seq_len, caches, *stream_, &probe));
  PromptResult result{.kind = prompt.kind,
                      .index = prompt.index,
                      .seq_len = prompt.seq_len,
                      .digest = prompt.Digest(),
                      .commit = kCommit,
                      .reused = prompt.reused};
  for (size_t i = 0; i < caches.size(); ++i) {
    CandidateResult row{.name = candidates_[i].name(),
                        .method = candidates_[i].method,
                        .asked = candidates_[i].ratio,
                        .ratio = caches[i].ratio(),
                        .bytes = caches[i].bytes()};
    Summarise(caches[i], probe.errors()[i], row);
    result.candidates.push_back(std::move(row));
  }
  RETURN_IF_ERROR(Force(prompt, prefilled, caches, result));
  RETURN_IF_ERROR(CheckFinite(result));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

absl::StatusOr<std::vector<CandidateCache>> Measurement::MakeCaches(const Prompt& prompt,
                                                                    decode::Arena& arena) const {
  const int64_t forced = std::ssize(prompt.ids) - 1 - prompt.seq_len;
  std::vector<CandidateCache> caches;
  for (const Candidate& candidate : candidates_) {
    absl::StatusOr<CandidateCache> cache = CandidateCache::Create(
        *model_, candidate.options, prompt.seq_len, forced, arena, candidate.ablation);
    if (!cache.ok()) return Annotate(cache.status(), candidate.name());
    caches.push_back(*std::move(cache));
  }
  return caches;
}

absl::Status Measurement::Force(const Prompt& prompt, const std::vector<float>& prefilled,
                                std::span<CandidateCache> caches, PromptResult& result) {
  const size_t vocab = static_cast<size_t>(model_->config().vocab_size);
  const size_t first = static_cast<size_t>(prompt.seq_len);
  std::vector<decode::Sequence*> batch;
  for (CandidateCache& cache : caches) batch.push_back(&cache.Join(prompt.ids[first]));
  std::vector<Tally> tallies(caches.size(), Tally{Agreement(), Answers(prompt.answers)});
  Agreement floor;
  for (size_t at = first; at + 1 < prompt.ids.size(); ++at) {
    ASSIGN_OR_RETURN(const std::span<const float> logits, step_->Logits(batch));
    const int32_t truth = prompt.ids[at + 1];
    const std::vector<double> full = LogProbabilities(logits.first(vocab));
    floor.Add(LogProbabilities({&prefilled[(at - first) * vocab], vocab}), full, truth);
    stream_->ParallelFor(std::ssize(batch), [&](int64_t i, int) {
      const std::vector<double> log_p =
          LogProbabilities(logits.subspan(static_cast<size_t>(i) * vocab, vocab));
      tallies[i].agreement.Add(full, log_p, truth);
      tallies[i].answers.Add(static_cast<int64_t>(at) + 1, log_p[static_cast<size_t>(truth)]);
    });
    for (decode::Sequence* sequence : batch) sequence->Append(truth);
  }
  for (size_t i = 0; i < tallies.size(); ++i) tallies[i].Store(result.candidates[i]);
  result.floor_kl = floor.mean_divergence();
  result.floor_top1 = floor.top1();
  return absl::OkStatus();
}

void Measurement::Summarise(const CandidateCache& cache, const AttentionError& error,
                            CandidateResult& result) const {
  const int64_t heads = model_->config().num_q_heads;
  const int64_t layers = model_->config().num_layers;
  const int64_t rows = std::ssize(error.cosines) / (layers * heads);
  result.distance_bins.assign(kDistanceBins, 0);
  result.head_cosines.assign(static_cast<size_t>(layers * heads), 0.0f);
  double sum = 0;
  int64_t low = 0;
  for (int64_t i = 0; i < std::ssize(error.cosines); ++i) {
    const float cosine = error.cosines[i];
    sum += cosine;
    low += cosine < kLowCosine ? 1 : 0;
    ++result.distance_bins[DistanceBinOf(cosine)];
    const int64_t layer = i / (rows * heads);
    result.head_cosines[layer * heads + i % heads] += cosine / static_cast<float>(rows);
  }
  const double count = static_cast<double>(error.cosines.size());
  result.cosine_mean = sum / count;
  result.cosine_low = static_cast<double>(low) / count;
  result.logit_errors = error.logit_errors;
  for (int layer = 0; layer < layers; ++layer) {
    for (const kv::Side side : kv::kSides) {
      const std::span<const float> shares = cache.residual_shares(layer, side);
      result.residual_shares.insert(result.residual_shares.end(), shares.begin(), shares.end());
    }
  }
}

}  // namespace anchorage::eval
