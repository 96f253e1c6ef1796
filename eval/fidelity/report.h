// What many prompts say together: means with their intervals, comparisons prompt by prompt, and
// the tables and plots that show them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/fidelity/result.h"
#include "eval/report/bootstrap.h"

namespace anchorage::eval {

// A divergence below this counts as this much in geometric means: a cache that is kept whole has 0.
inline constexpr double kLeastNats = 1e-9;

// The length whose distance from the full cache Shortfalls judges.
inline constexpr int64_t kCheckedTokens = 4096;

// One candidate over a group of prompts. Intervals are of 95 %, over prompts.
struct CandidateSummary {
  std::string name;
  std::string method;
  double asked = 1;
  double ratio = 1;    // achieved
  int64_t bytes = 0;   // the same for all prompts of one length
  Interval kl;         // geometric mean, nats
  double mean_kl = 0;  // arithmetic
  double js = 0;       // all others: arithmetic means
  double top1 = 0;
  double surprise = 0;
  std::optional<double> answer_log_p;     // of the whole answer, nats
  std::optional<Interval> answer;         // its change against the full cache
  std::optional<Interval> later_answers;  // likewise
  double cosine_low = 0;                  // share under kLowCosine
  double cosine_mean = 0;
  std::optional<double> logit_error;    // mean over layers
  std::vector<double> logit_errors;     // [layers]; empty: not every key is kept
  std::vector<double> distance_shares;  // [kDistanceBins] of cosines up to each bin's end
  std::vector<double> head_cosines;     // [layers, q heads]
  std::vector<double> residual_shares;  // [layers, K and V, KV heads]
};

// Another method against the first one that compresses, at the same asked ratio.
struct Comparison {
  std::string name;        // "paper 10x"
  std::string reference;   // "compact 10x"
  double bytes_ratio = 1;  // of the other's bytes over the reference's
  Interval kl_ratio;       // geometric mean over prompts of KL over KL: above 1, the other is worse
  std::optional<Interval> answer;  // mean of log p minus the reference's log p
};

// All prompts of one length and kind; kind "all" is those of one length together.
struct Group {
  int64_t seq_len = 0;
  std::string kind;
  int64_t prompts = 0;
  int64_t reused = 0;      // of them, see Prompt
  double worst_floor = 0;  // largest divergence of the uncompressed prefill from the full cache
  std::vector<CandidateSummary> candidates;
  std::vector<Comparison> comparisons;

  const CandidateSummary* Find(const std::string& name) const;  // null when it is not there
};

struct Report {
  int64_t num_layers = 0;
  std::vector<std::string> commits;  // of the programs that measured, without repetition
  std::vector<Group> groups;         // by length, then kind in the order of first appearance, "all"
};

// `results`: all with the same candidates in the same order.
Report MakeReport(std::span<const PromptResult> results);

// `head`: what is said above the tables, one paragraph.
std::string ToMarkdown(const Report& report, const std::string& head);
std::string ToJson(const Report& report, const std::string& head);

struct NamedPlot {
  std::string file;  // "kl_4096.svg"
  std::string svg;
};
// Of each length over all kinds: divergence and answers against compression, distribution of
// cosines, error of logits by layer, and for each candidate cosine and residual share by head.
std::vector<NamedPlot> MakePlots(const Report& report);

// What falls short of what the compact layout promises, a sentence each; empty when all holds:
//   - the full cache within 1e-3 nats of the uncompressed prefill, on every prompt,
//   - compact at 10x less than 0.1 nats from it at kCheckedTokens alone, in the arithmetic mean
//   over
//     the prompts that are texts: what follows a retrieval prompt is mostly digits to be looked up,
//   - compact no further than the paper's layout at 10x and 20x, in the mean over all prompts of a
//     length.
std::vector<std::string> Shortfalls(const Report& report);

}  // namespace anchorage::eval
