// What was measured on one prompt, of the full cache and of every candidate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace anchorage::eval {

inline constexpr double kLowCosine = 0.9;
// Bins of 1 - cosine, ten to a decade: bin i ends at DistanceBinEnd(i), the first begins at 0, the
// last ends at 2.
inline constexpr int kDistanceBins = 53;
double DistanceBinEnd(int bin);
int DistanceBinOf(double cosine);  // 0 of NaN

struct CandidateResult {
  std::string name;     // "compact 10x"
  std::string method;   // "compact"
  double asked = 1;     // ratio
  double ratio = 1;     // achieved: dense bytes over bytes
  int64_t bytes = 0;    // of the prompt's cache as it travels, without padding
  double kl = 0;        // full || candidate, mean over the forced positions, nats
  double js = 0;        // Jensen-Shannon, likewise
  double top1 = 0;      // share of positions with the same likeliest token
  double surprise = 0;  // mean of -log p of the text's next token, nats
  // log p of the answer to the question that the prompt ends with, over all its tokens, nats.
  std::optional<double> answer;
  // The same of questions that came after the cache was compressed, mean over them.
  std::optional<double> later_answers;
  double cosine_mean = 1;              // of attention outputs, over layers, rows and heads
  double cosine_low = 0;               // share under kLowCosine
  std::vector<int64_t> distance_bins;  // [kDistanceBins] how many cosines
  std::vector<float> head_cosines;     // [layers, q heads] mean over rows
  std::vector<double> logit_errors;    // [layers] relative; empty: not every key is kept
  std::vector<float> residual_shares;  // [layers, K and V, KV heads]

  bool operator==(const CandidateResult&) const = default;
};

struct PromptResult {
  std::string kind;
  int64_t index = 0;
  int64_t seq_len = 0;
  uint64_t digest = 0;  // of the prompt
  std::string commit;   // of the program
  bool reused = false;  // see Prompt
  double floor_kl = 0;  // uncompressed prefill || full cache, nats
  double floor_top1 = 1;
  double seconds = 0;
  std::vector<CandidateResult> candidates;  // the full cache first

  bool operator==(const PromptResult&) const = default;
};

// One line of JSON without its end, and back. InvalidArgument: not such a line.
std::string ToJsonLine(const PromptResult& result);
absl::StatusOr<PromptResult> ResultFromJson(std::string_view line);

// FailedPrecondition, with the figure's name: one is NaN or infinite.
absl::Status CheckFinite(const PromptResult& result);

}  // namespace anchorage::eval
