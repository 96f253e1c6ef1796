// Plots as SVG text, for reports: lines, bars, a heat map and histograms, with axes and a legend.
//
// Each plot is a plain struct and ToSvg() a pure function of it, so the same numbers give the same
// bytes. Texts are escaped; the result is well-formed XML whatever they say. A NaN is a gap: no
// point, no bar, an empty cell. Plots without a single number are drawn as an empty frame.
// Thread-safe.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace anchorage::eval {

inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// One line, its points in the order they are joined.
struct LineSeries {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;     // as many as x
  std::vector<double> low;   // of error bars, as many as x; empty: none
  std::vector<double> high;  // likewise
};

struct LinePlot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<LineSeries> series;
  bool log_x = false;  // points with x <= 0 are gaps
  bool log_y = false;
  double y_min = kNoValue;  // NaN: from the data
  double y_max = kNoValue;
};

// One bar in each group.
struct BarSeries {
  std::string name;
  std::vector<double> values;  // one for each group
  std::vector<double> low;     // of error bars; empty: none
  std::vector<double> high;
};

struct BarPlot {
  std::string title;
  std::string y_label;
  std::vector<std::string> groups;
  std::vector<BarSeries> series;
  double y_max = kNoValue;  // NaN: from the data
};

struct HeatMap {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<std::string> columns;
  std::vector<std::string> rows;  // from the top
  std::vector<double> values;     // [rows, columns]
  double low = 0;                 // what the darkest red stands for
  double high = 1;                // what the darkest blue stands for
};

struct HistogramSeries {
  std::string name;
  std::vector<double> values;  // infinite ones are left out
};

// All series share one set of bins; shares of each series' own values are drawn as steps.
struct Histogram {
  std::string title;
  std::string x_label;
  std::vector<HistogramSeries> series;
  int bins = 30;
};

// A series whose lengths disagree is drawn as far as its shortest list goes.
std::string ToSvg(const LinePlot& plot);
std::string ToSvg(const BarPlot& plot);
std::string ToSvg(const HeatMap& plot);
std::string ToSvg(const Histogram& plot);

}  // namespace anchorage::eval
