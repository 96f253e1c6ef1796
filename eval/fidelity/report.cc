#include "eval/fidelity/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "absl/strings/str_format.h"

namespace anchorage::eval {
namespace {

constexpr double kLargestFloorNats = 1e-3;
constexpr double kLargestNats = 0.1;  // compact, 10x, kCheckedTokens

using Prompts = std::vector<const PromptResult*>;

// `value` of candidate `at` on each prompt.
template <typename Value>
std::vector<double> Each(const Prompts& prompts, size_t at, const Value& value) {
  std::vector<double> values;
  for (const PromptResult* prompt : prompts) {
    values.push_back(static_cast<double>(std::invoke(value, prompt->candidates[at])));
  }
  return values;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::vector<double> Divergences(const Prompts& prompts, size_t at) {
  std::vector<double> values = Each(prompts, at, &CandidateResult::kl);
  for (double& value : values) value = std::max(value, kLeastNats);
  return values;
}

Interval GeometricMean(const std::vector<double>& values) {
  return BootstrapGeometricRatio(values, std::vector<double>(values.size(), 1.0));
}

// Difference of an answer's log p between two candidates, over the prompts that have answers.
std::optional<Interval> AnswerChange(const Prompts& prompts, size_t at, size_t base,
                                     std::optional<double> CandidateResult::*which) {
  std::vector<double> ours;
  std::vector<double> theirs;
  for (const PromptResult* prompt : prompts) {
    const std::optional<double>& a = prompt->candidates[at].*which;
    const std::optional<double>& b = prompt->candidates[base].*which;
    if (!a || !b) continue;
    ours.push_back(*a);
    theirs.push_back(*b);
  }
  if (ours.empty()) return std::nullopt;
  return BootstrapMeanDifference(ours, theirs);
}

std::optional<double> MeanAnswer(const Prompts& prompts, size_t at) {
  std::vector<double> answers;
  for (const PromptResult* prompt : prompts) {
    const std::optional<double>& answer = prompt->candidates[at].answer;
    if (answer) answers.push_back(*answer);
  }
  if (answers.empty()) return std::nullopt;
  return Mean(answers);
}

// Means, element by element, of lists that are equally long in every prompt.
template <typename List>
std::vector<double> MeanList(const Prompts& prompts, size_t at, List CandidateResult::*list) {
  std::vector<double> means((prompts.front()->candidates[at].*list).size(), 0.0);
  for (const PromptResult* prompt : prompts) {
    const List& values = prompt->candidates[at].*list;
    for (size_t i = 0; i < means.size() && i < values.size(); ++i) {
      means[i] += static_cast<double>(values[i]) / static_cast<double>(prompts.size());
    }
  }
  return means;
}

std::vector<double> CumulativeShares(const std::vector<double>& bins) {
  std::vector<double> shares;
  double total = 0;
  for (const double count : bins) total += count;
  double below = 0;
  for (const double count : bins) shares.push_back((below += count) / std::max(total, 1e-300));
  return shares;
}

CandidateSummary Summarise(const Prompts& prompts, size_t at) {
  const CandidateResult& first = prompts.front()->candidates[at];
  CandidateSummary summary{.name = first.name,
                           .method = first.method,
                           .asked = first.asked,
                           .ratio = first.ratio,
                           .bytes = first.bytes};
  summary.kl = GeometricMean(Divergences(prompts, at));
  summary.mean_kl = Mean(Each(prompts, at, &CandidateResult::kl));
  summary.js = Mean(Each(prompts, at, &CandidateResult::js));
  summary.top1 = Mean(Each(prompts, at, &CandidateResult::top1));
  summary.surprise = Mean(Each(prompts, at, &CandidateResult::surprise));
  summary.answer_log_p = MeanAnswer(prompts, at);
  summary.answer = AnswerChange(prompts, at, 0, &CandidateResult::answer);
  summary.later_answers = AnswerChange(prompts, at, 0, &CandidateResult::later_answers);
  summary.cosine_low = Mean(Each(prompts, at, &CandidateResult::cosine_low));
  summary.cosine_mean = Mean(Each(prompts, at, &CandidateResult::cosine_mean));
  summary.logit_errors = MeanList(prompts, at, &CandidateResult::logit_errors);
  if (!summary.logit_errors.empty()) summary.logit_error = Mean(summary.logit_errors);
  summary.distance_shares =
      CumulativeShares(MeanList(prompts, at, &CandidateResult::distance_bins));
  summary.head_cosines = MeanList(prompts, at, &CandidateResult::head_cosines);
  summary.residual_shares = MeanList(prompts, at, &CandidateResult::residual_shares);
  return summary;
}

// Every other method against the first that compresses.
std::vector<Comparison> Compare(const Prompts& prompts) {
  const std::vector<CandidateResult>& rows = prompts.front()->candidates;
  std::vector<Comparison> comparisons;
  for (size_t reference = 1; reference < rows.size(); ++reference) {
    if (rows[reference].method != rows[1].method) break;
    for (size_t other = 1; other < rows.size(); ++other) {
      if (rows[other].method == rows[1].method || rows[other].asked != rows[reference].asked) {
        continue;
      }
      comparisons.push_back(
          {.name = rows[other].name,
           .reference = rows[reference].name,
           .bytes_ratio =
               static_cast<double>(rows[other].bytes) / static_cast<double>(rows[reference].bytes),
           .kl_ratio = BootstrapGeometricRatio(Divergences(prompts, other),
                                               Divergences(prompts, reference)),
           .answer = AnswerChange(prompts, other, reference, &CandidateResult::answer)});
    }
  }
  return comparisons;
}

// The larger one; NaN is worse than any number.
double Worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

Group MakeGroup(int64_t seq_len, const std::string& kind, const Prompts& prompts) {
  Group group{.seq_len = seq_len, .kind = kind, .prompts = std::ssize(prompts)};
  for (const PromptResult* prompt : prompts) {
    group.reused += prompt->reused ? 1 : 0;
    group.worst_floor = Worse(group.worst_floor, prompt->floor_kl);
  }
  for (size_t at = 0; at < prompts.front()->candidates.size(); ++at) {
    group.candidates.push_back(Summarise(prompts, at));
  }
  group.comparisons = Compare(prompts);
  return group;
}

std::vector<std::string> KindsOf(const Prompts& prompts) {
  std::vector<std::string> kinds;
  for (const PromptResult* prompt : prompts) {
    if (std::find(kinds.begin(), kinds.end(), prompt->kind) == kinds.end()) {
      kinds.push_back(prompt->kind);
    }
  }
  return kinds;
}

}  // namespace

const CandidateSummary* Group::Find(const std::string& name) const {
  const auto found =
      std::find_if(candidates.begin(), candidates.end(),
                   [&name](const CandidateSummary& summary) { return summary.name == name; });
  return found == candidates.end() ? nullptr : &*found;
}

Report MakeReport(std::span<const PromptResult> results) {
  Report report;
  std::set<int64_t> lengths;
  for (const PromptResult& result : results) {
    lengths.insert(result.seq_len);
    if (std::find(report.commits.begin(), report.commits.end(), result.commit) ==
        report.commits.end()) {
      report.commits.push_back(result.commit);
    }
  }
  for (const int64_t length : lengths) {
    Prompts all;
    for (const PromptResult& result : results) {
      if (result.seq_len == length) all.push_back(&result);
    }
    for (const std::string& kind : KindsOf(all)) {
      Prompts some;
      std::copy_if(all.begin(), all.end(), std::back_inserter(some),
                   [&kind](const PromptResult* prompt) { return prompt->kind == kind; });
      report.groups.push_back(MakeGroup(length, kind, some));
    }
    report.groups.push_back(MakeGroup(length, "all", all));
  }
  if (!results.empty()) {
    report.num_layers = std::ssize(results.front().candidates.front().logit_errors);
  }
  return report;
}

namespace {

// Mean divergence over the prompts of a length that are texts; none: there are none.
std::optional<double> MeanOverTexts(const Report& report, int64_t seq_len,
                                    const std::string& name) {
  double sum = 0;
  double count = 0;
  for (const Group& group : report.groups) {
    const CandidateSummary* row = group.Find(name);
    if (group.seq_len != seq_len || group.kind == "all" || group.kind == "retrieval" ||
        row == nullptr) {
      continue;
    }
    sum += row->mean_kl * static_cast<double>(group.prompts);
    count += static_cast<double>(group.prompts);
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

}  // namespace

std::vector<std::string> Shortfalls(const Report& report) {
  std::vector<std::string> shortfalls;
  for (const Group& group : report.groups) {
    if (group.kind != "all") continue;
    const auto expect = [&](bool holds, const std::string& what) {
      if (!holds) shortfalls.push_back(absl::StrFormat("%d tokens: %s", group.seq_len, what));
    };
    expect(group.worst_floor < kLargestFloorNats,
           absl::StrFormat("the full cache is %.1e nats from the uncompressed prefill, more than "
                           "%.0e: nothing else here can be trusted",
                           group.worst_floor, kLargestFloorNats));
    const auto compare = [&](const char* ratio) {
      const CandidateSummary* compact = group.Find(absl::StrFormat("compact %s", ratio));
      const CandidateSummary* paper = group.Find(absl::StrFormat("paper %s", ratio));
      if (compact == nullptr || paper == nullptr) return;
      expect(compact->mean_kl <= paper->mean_kl,
             absl::StrFormat("compact at %s is %.4f nats away, paper %.4f", ratio, compact->mean_kl,
                             paper->mean_kl));
    };
    const std::optional<double> distance = MeanOverTexts(report, group.seq_len, "compact 10x");
    if (distance && group.seq_len == kCheckedTokens) {
      expect(*distance < kLargestNats,
             absl::StrFormat("compact at 10x is %.4f nats from the full cache, %.1f or more",
                             *distance, kLargestNats));
    }
    compare("10x");
    compare("20x");
  }
  return shortfalls;
}

}  // namespace anchorage::eval
