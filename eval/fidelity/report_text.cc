// The report as Markdown and as JSON.
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "eval/fidelity/report.h"

namespace anchorage::eval {
namespace {

using Json = nlohmann::ordered_json;

std::string Signed(const std::optional<Interval>& interval) {
  if (!interval) return "-";
  return absl::StrFormat("%+.2f (%+.2f to %+.2f)", interval->estimate, interval->low,
                         interval->high);
}

// Of the full cache log p itself, since its change is nothing.
std::string AnswerCell(const CandidateSummary& row, bool full) {
  if (!full || !row.answer_log_p) return Signed(row.answer);
  return absl::StrFormat("log p %.2f", *row.answer_log_p);
}

std::string Row(const CandidateSummary& row, bool full) {
  return absl::StrFormat(
      "| %s | %d | %.2fx | %.4f (%.4f to %.4f) | %.4f | %.4f | %.1f %% | %.4f | %s | %s | %.1f %% "
      "| %s |\n",
      row.name, row.bytes, row.ratio, row.kl.estimate, row.kl.low, row.kl.high, row.mean_kl, row.js,
      100 * row.top1, row.surprise, AnswerCell(row, full), full ? "-" : Signed(row.later_answers),
      100 * row.cosine_low, row.logit_error ? absl::StrFormat("%.3f", *row.logit_error) : "-");
}

std::string Table(const Group& group) {
  std::string text =
      "| cache | bytes | achieved | KL | mean KL | JS | same top-1 | surprise | answer | later "
      "answers | cosines under 0.9 | logit error |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const CandidateSummary& row : group.candidates) {
    text += Row(row, &row == &group.candidates.front());
  }
  return text;
}

std::string ComparisonTable(const Group& group) {
  if (group.comparisons.empty()) return "";
  std::string text =
      "\n| cache | against | bytes over its bytes | KL over its KL | answer minus its answer |\n"
      "|---|---|---|---|---|\n";
  for (const Comparison& row : group.comparisons) {
    absl::StrAppendFormat(&text, "| %s | %s | %.3f | %.2f (%.2f to %.2f) | %s |\n", row.name,
                          row.reference, row.bytes_ratio, row.kl_ratio.estimate, row.kl_ratio.low,
                          row.kl_ratio.high, Signed(row.answer));
  }
  return text;
}

constexpr const char* kLegend =
    "- **KL**: divergence of the next-token distribution, full cache || compressed, in nats; mean\n"
    "  over the forced positions of a prompt, then geometric mean over prompts. **mean KL** is "
    "the\n"
    "  arithmetic one. **JS**: Jensen-Shannon divergence. Behind a figure in brackets: its 95 %\n"
    "  interval, bootstrapped over prompts.\n"
    "- **same top-1**: share of positions with the same likeliest token. **surprise**: mean of\n"
    "  -log p of the text's own next token, nats.\n"
    "- **answer**: change against the full cache of log p of the whole answer to the question "
    "that\n"
    "  a retrieval prompt ends with, nats. **later answers**: the same of questions that come "
    "only\n"
    "  after the cache is compressed, a mean over them.\n"
    "- **cosines under 0.9**: of attention outputs over the prompt, share of (layer, head, row).\n"
    "  **logit error**: |q.k - exact| / |exact| over the prompt's positions, mean over layers.\n"
    "- Prose and retrieval, or a text of yours and retrieval, are cut from the same texts, one "
    "from\n"
    "  each end: prompts of **all** share text where the two together need more than there is.\n"
    "- **bytes**: of the prompt's cache over all layers as it travels, without padding, exact.\n";

Json ToJson(const Interval& interval) {
  return {{"estimate", interval.estimate}, {"low", interval.low}, {"high", interval.high}};
}

Json OrNull(const std::optional<Interval>& interval) {
  return interval ? ToJson(*interval) : Json();
}

Json ToJson(const CandidateSummary& row) {
  return {{"name", row.name},
          {"method", row.method},
          {"asked_ratio", row.asked},
          {"ratio", row.ratio},
          {"bytes", row.bytes},
          {"kl_geometric_nats", ToJson(row.kl)},
          {"kl_mean_nats", row.mean_kl},
          {"js_nats", row.js},
          {"top1", row.top1},
          {"surprise_nats", row.surprise},
          {"answer_log_p", row.answer_log_p ? Json(*row.answer_log_p) : Json()},
          {"answer_log_p_change", OrNull(row.answer)},
          {"later_answers_log_p_change", OrNull(row.later_answers)},
          {"cosine_low", row.cosine_low},
          {"cosine_mean", row.cosine_mean},
          {"cosine_distance_cumulative", row.distance_shares},
          {"head_cosines", row.head_cosines},
          {"logit_errors", row.logit_errors},
          {"residual_shares", row.residual_shares}};
}

Json ToJson(const Comparison& row) {
  return {{"name", row.name},
          {"reference", row.reference},
          {"bytes_ratio", row.bytes_ratio},
          {"kl_ratio", ToJson(row.kl_ratio)},
          {"answer_log_p_difference", OrNull(row.answer)}};
}

}  // namespace

std::string ToMarkdown(const Report& report, const std::string& head) {
  std::string text = absl::StrCat("# Fidelity\n\n", head, "\n\nMeasured by commit ",
                                  absl::StrJoin(report.commits, ", "), ".\n\n", kLegend);
  const Group* last = nullptr;
  for (const Group& group : report.groups) {
    // A length of one kind has nothing to add.
    const bool said = last != nullptr && group.kind == "all" && last->prompts == group.prompts;
    last = &group;
    if (said) continue;
    absl::StrAppendFormat(&text, "\n## %d tokens, %s (prompts: %d)\n\n", group.seq_len, group.kind,
                          group.prompts);
    if (group.reused > 0) {
      absl::StrAppendFormat(&text,
                            "%d of them contain text of an earlier prompt of their kind and "
                            "length, its parts in another order.\n\n",
                            group.reused);
    }
    absl::StrAppendFormat(&text,
                          "Uncompressed prefill against the full cache: %.1e nats at most.\n\n",
                          group.worst_floor);
    text += Table(group) + ComparisonTable(group);
  }
  return text;
}

std::string ToJson(const Report& report, const std::string& head) {
  Json json = {{"setting", head}, {"commits", report.commits}, {"groups", Json::array()}};
  for (const Group& group : report.groups) {
    Json entry = {{"tokens", group.seq_len},
                  {"kind", group.kind},
                  {"prompts", group.prompts},
                  {"prompts_of_reused_text", group.reused},
                  {"worst_floor_nats", group.worst_floor},
                  {"candidates", Json::array()},
                  {"comparisons", Json::array()}};
    for (const CandidateSummary& row : group.candidates) entry["candidates"].push_back(ToJson(row));
    for (const Comparison& row : group.comparisons) entry["comparisons"].push_back(ToJson(row));
    json["groups"].push_back(std::move(entry));
  }
  return json.dump() + "\n";
}

}  // namespace anchorage::eval
