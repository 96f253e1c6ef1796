// The report as plots.
#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "eval/fidelity/report.h"
#include "eval/report/svg_plot.h"

namespace anchorage::eval {
namespace {

// Each method's candidates that compress, methods in the order of the table, ratios ascending.
std::vector<std::vector<const CandidateSummary*>> ByMethod(const Group& group) {
  std::vector<std::vector<const CandidateSummary*>> methods;
  for (size_t i = 1; i < group.candidates.size(); ++i) {
    const CandidateSummary& row = group.candidates[i];
    if (methods.empty() || methods.back().front()->method != row.method) methods.emplace_back();
    methods.back().push_back(&row);
  }
  for (std::vector<const CandidateSummary*>& method : methods) {
    std::stable_sort(
        method.begin(), method.end(),
        [](const CandidateSummary* a, const CandidateSummary* b) { return a->ratio < b->ratio; });
  }
  return methods;
}

// A line for each method of what `value` finds, against the compression that it reaches.
template <typename Value>
LinePlot AgainstCompression(const Group& group, const Value& value) {
  LinePlot plot;
  plot.x_label = "compression, times";
  plot.log_x = true;
  for (const std::vector<const CandidateSummary*>& method : ByMethod(group)) {
    LineSeries series{.name = method.front()->method};
    for (const CandidateSummary* row : method) {
      const std::optional<Interval> interval = value(*row);
      series.x.push_back(row->ratio);
      series.y.push_back(interval ? interval->estimate : kNoValue);
      series.low.push_back(interval ? interval->low : kNoValue);
      series.high.push_back(interval ? interval->high : kNoValue);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

LinePlot DivergencePlot(const Group& group) {
  LinePlot plot = AgainstCompression(
      group, [](const CandidateSummary& row) { return std::optional<Interval>(row.kl); });
  plot.title = absl::StrFormat("Distance from the full cache, %d tokens, %d prompts", group.seq_len,
                               group.prompts);
  plot.y_label = "KL, nats, geometric mean";
  plot.log_y = true;
  return plot;
}

LinePlot AnswerPlot(const Group& group) {
  LinePlot plot = AgainstCompression(group, [](const CandidateSummary& row) { return row.answer; });
  plot.title = absl::StrFormat("Answers against the full cache, %d tokens", group.seq_len);
  plot.y_label = "change of log p of the answer, nats";
  return plot;
}

LinePlot CosinePlot(const Group& group) {
  LinePlot plot;
  plot.title = absl::StrFormat("Cosine of attention outputs, %d tokens", group.seq_len);
  plot.x_label = "1 - cosine, at most";
  plot.y_label = "share of (layer, head, row)";
  plot.log_x = true;
  for (size_t i = 1; i < group.candidates.size(); ++i) {
    const CandidateSummary& row = group.candidates[i];
    LineSeries series;
    series.name = row.name;
    series.y = row.distance_shares;
    for (int bin = 0; bin < kDistanceBins; ++bin) series.x.push_back(DistanceBinEnd(bin));
    plot.series.push_back(std::move(series));
  }
  return plot;
}

LinePlot LogitPlot(const Group& group) {
  LinePlot plot;
  plot.title = absl::StrFormat("Error of attention logits, %d tokens", group.seq_len);
  plot.x_label = "layer";
  plot.y_label = "|q.k - exact| / |exact|";
  for (size_t i = 1; i < group.candidates.size(); ++i) {
    const CandidateSummary& row = group.candidates[i];
    if (row.logit_errors.empty()) continue;
    LineSeries series;
    series.name = row.name;
    series.y = row.logit_errors;
    for (size_t layer = 0; layer < row.logit_errors.size(); ++layer) {
      series.x.push_back(static_cast<double>(layer));
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

// A column for each layer. `values` [layers, rows]: transposed.
HeatMap ByHead(const std::vector<double>& values, int64_t num_layers,
               const std::vector<std::string>& rows) {
  HeatMap map;
  map.x_label = "layer";
  map.rows = rows;
  for (int64_t layer = 0; layer < num_layers; ++layer) map.columns.push_back(absl::StrCat(layer));
  for (size_t row = 0; row < rows.size(); ++row) {
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      map.values.push_back(values[static_cast<size_t>(layer) * rows.size() + row]);
    }
  }
  return map;
}

HeatMap CosineMap(const Group& group, const CandidateSummary& row, int64_t num_layers) {
  std::vector<std::string> heads;
  for (int64_t head = 0; head < std::ssize(row.head_cosines) / num_layers; ++head) {
    heads.push_back(absl::StrCat(head));
  }
  HeatMap map = ByHead(row.head_cosines, num_layers, heads);
  map.title =
      absl::StrFormat("Mean cosine of attention outputs, %s, %d tokens", row.name, group.seq_len);
  map.y_label = "query head";
  map.low = 0.5;
  return map;
}

HeatMap ResidualMap(const Group& group, const CandidateSummary& row, int64_t num_layers) {
  std::vector<std::string> heads;
  const int64_t num_heads = std::ssize(row.residual_shares) / num_layers / 2;
  for (const char* side : {"K", "V"}) {
    for (int64_t head = 0; head < num_heads; ++head) heads.push_back(absl::StrCat(side, head));
  }
  HeatMap map = ByHead(row.residual_shares, num_layers, heads);
  map.title =
      absl::StrFormat("Share of positions with a residual, %s, %d tokens", row.name, group.seq_len);
  map.y_label = "KV head";
  return map;
}

bool AnyAbove(const std::vector<double>& values, double bound) {
  return std::any_of(values.begin(), values.end(), [bound](double value) { return value > bound; });
}

}  // namespace

std::vector<NamedPlot> MakePlots(const Report& report) {
  std::vector<NamedPlot> plots;
  for (const Group& group : report.groups) {
    if (group.kind != "all" || report.num_layers == 0) continue;
    const auto add = [&](const std::string& name, const std::string& svg) {
      plots.push_back({absl::StrCat(name, "_", group.seq_len, ".svg"), svg});
    };
    add("kl", ToSvg(DivergencePlot(group)));
    if (group.candidates.front().answer) add("answers", ToSvg(AnswerPlot(group)));
    add("cosines", ToSvg(CosinePlot(group)));
    add("logit_errors", ToSvg(LogitPlot(group)));
    for (size_t i = 1; i < group.candidates.size(); ++i) {
      const CandidateSummary& row = group.candidates[i];
      const std::string name = absl::StrReplaceAll(row.name, {{" ", "_"}});
      add("head_cosines_" + name, ToSvg(CosineMap(group, row, report.num_layers)));
      if (AnyAbove(row.residual_shares, 0)) {
        add("residuals_" + name, ToSvg(ResidualMap(group, row, report.num_layers)));
      }
    }
  }
  return plots;
}

}  // namespace anchorage::eval
