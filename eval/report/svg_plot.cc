// A plot is a frame with ticks (Frame), marks inside it, and a legend below. Sizes are in pixels,
// y grows downwards.
#include "eval/report/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"

namespace anchorage::eval {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 420;
constexpr double kLeft = 76;
constexpr double kRight = 20;
constexpr double kTop = 44;
constexpr double kBottom = 62;
constexpr double kLegendLine = 20;
constexpr double kSlantedLabels = 60;  // more room below for long names of groups

// Okabe and Ito's colours, which colour-blind readers can tell apart.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000", "#999933"};

const char* Colour(size_t series) { return kColours[series % std::size(kColours)]; }

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;  // XML 1.0 forbids the others
    }
  }
  return out;
}

std::string Number(double value) { return absl::StrFormat("%.4g", value); }

// An interval of one axis, and how it maps to pixels.
struct Scale {
  double min = 0;
  double max = 1;
  bool log = false;
  double from = 0;  // pixel of min
  double to = 1;    // pixel of max

  bool Holds(double value) const { return std::isfinite(value) && (!log || value > 0); }

  double Pixel(double value) const {
    const double share =
        log ? std::log(value / min) / std::log(max / min) : (value - min) / (max - min);
    return from + std::clamp(share, 0.0, 1.0) * (to - from);
  }
};

// The least and the largest of what a scale can hold.
class Range {
 public:
  explicit Range(bool log) : log_(log) {}

  void Add(double value) {
    if (!std::isfinite(value) || (log_ && value <= 0)) return;
    min_ = empty_ ? value : std::min(min_, value);
    max_ = empty_ ? value : std::max(max_, value);
    empty_ = false;
  }
  void Add(const std::vector<double>& values) {
    for (const double value : values) Add(value);
  }

  // A scale with some room around the values; never empty.
  Scale ToScale() const {
    Scale scale{min_, max_, log_};
    if (empty_) return {log_ ? 1.0 : 0.0, log_ ? 10.0 : 1.0, log_};
    if (log_) {
      const double room = min_ == max_ ? 2 : std::pow(max_ / min_, 0.04);
      return {min_ / room, max_ * room, log_};
    }
    const double room = min_ == max_ ? std::max(1.0, std::abs(min_)) * 0.5 : (max_ - min_) * 0.05;
    scale.min -= room;
    scale.max += room;
    return scale;
  }

 private:
  bool log_;
  bool empty_ = true;
  double min_ = 0;
  double max_ = 0;
};

// Round numbers inside the scale, about `wanted` of them.
std::vector<double> LinearTicks(const Scale& scale, int wanted) {
  const double rough = (scale.max - scale.min) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double mantissa = rough / power;
  const double step = power * (mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : mantissa < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  const auto first = static_cast<int64_t>(std::ceil(scale.min / step));
  const auto last = static_cast<int64_t>(std::floor(scale.max / step));
  for (int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

// Powers of ten with 2 and 5 between them where there is room.
std::vector<double> LogTicks(const Scale& scale) {
  std::vector<double> ticks;
  const bool wide = scale.max / scale.min > 1e4;
  for (double power = std::pow(10, std::floor(std::log10(scale.min))); power <= scale.max;
       power *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double tick = power * digit;
      if (tick >= scale.min && tick <= scale.max && (digit == 1.0 || !wide)) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::vector<double> Ticks(const Scale& scale) {
  return scale.log ? LogTicks(scale) : LinearTicks(scale, 6);
}

// The SVG under way.
class Canvas {
 public:
  Canvas(double width, double height) {
    out_ = absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
        "viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"%g\" height=\"%g\" fill=\"#ffffff\"/>\n",
        width, height, width, height, width, height);
  }

  void Line(double x0, double y0, double x1, double y1, std::string_view colour, double width) {
    absl::StrAppendFormat(&out_,
                          "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"%s\" "
                          "stroke-width=\"%g\"/>\n",
                          x0, y0, x1, y1, colour, width);
  }
  void Rectangle(double x, double y, double width, double height, std::string_view colour) {
    absl::StrAppendFormat(
        &out_, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", x, y,
        width, height, colour);
  }
  void Dot(double x, double y, std::string_view colour) {
    absl::StrAppendFormat(&out_, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"3.5\" fill=\"%s\"/>\n", x, y,
                          colour);
  }
  // `points`: "x,y x,y ..."
  void Polyline(const std::string& points, std::string_view colour) {
    absl::StrAppendFormat(
        &out_, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", points,
        colour);
  }
  // `anchor`: start, middle or end. `turned`: degrees around (x, y).
  void Text(double x, double y, std::string_view anchor, std::string_view text, double turned = 0,
            std::string_view style = "fill=\"#222222\"") {
    const std::string turn =
        turned == 0 ? "" : absl::StrFormat(" transform=\"rotate(%g %.2f %.2f)\"", turned, x, y);
    absl::StrAppendFormat(&out_, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\" %s%s>%s</text>\n",
                          x, y, anchor, style, turn, Escaped(text));
  }

  std::string Finish() && {
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  std::string out_;
};

// The box that the marks stand in.
struct Box {
  double left = kLeft;
  double top = kTop;
  double right = kWidth - kRight;
  double bottom = kHeight - kBottom;

  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

void DrawTitles(Canvas& canvas, const Box& box, const std::string& title,
                const std::string& x_label, double x_label_y, const std::string& y_label) {
  canvas.Text((box.left + box.right) / 2, 24, "middle", title, 0,
              "font-size=\"15\" font-weight=\"bold\" fill=\"#222222\"");
  canvas.Text((box.left + box.right) / 2, x_label_y, "middle", x_label);
  canvas.Text(20, (box.top + box.bottom) / 2, "middle", y_label, -90);
}

void DrawYAxis(Canvas& canvas, const Box& box, const Scale& y) {
  for (const double tick : Ticks(y)) {
    canvas.Line(box.left, y.Pixel(tick), box.right, y.Pixel(tick), "#e2e2e2", 1);
    canvas.Text(box.left - 6, y.Pixel(tick) + 4, "end", Number(tick));
  }
  canvas.Line(box.left, box.top, box.left, box.bottom, "#222222", 1);
  canvas.Line(box.left, box.bottom, box.right, box.bottom, "#222222", 1);
}

void DrawXAxis(Canvas& canvas, const Box& box, const Scale& x) {
  for (const double tick : Ticks(x)) {
    canvas.Line(x.Pixel(tick), box.bottom, x.Pixel(tick), box.bottom + 5, "#222222", 1);
    canvas.Text(x.Pixel(tick), box.bottom + 19, "middle", Number(tick));
  }
}

// How far apart entries of the legend stand: as wide as the longest name.
double LegendStep(const std::vector<std::string>& names) {
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  return 34 + 7.2 * static_cast<double>(longest);
}

size_t LegendPerLine(const std::vector<std::string>& names) {
  return std::max<size_t>(1, static_cast<size_t>((kWidth - kLeft - kRight) / LegendStep(names)));
}

double LegendHeight(const std::vector<std::string>& names) {
  const size_t per_line = LegendPerLine(names);
  return kLegendLine * static_cast<double>((names.size() + per_line - 1) / per_line);
}

void DrawLegend(Canvas& canvas, const std::vector<std::string>& names, double top) {
  const size_t per_line = LegendPerLine(names);
  for (size_t i = 0; i < names.size(); ++i) {
    const double x = kLeft + LegendStep(names) * static_cast<double>(i % per_line);
    const double y = top + kLegendLine * static_cast<double>(i / per_line);
    canvas.Rectangle(x, y, 12, 12, Colour(i));
    canvas.Text(x + 18, y + 11, "start", names[i]);
  }
}

template <typename Series>
std::vector<std::string> NamesOf(const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (const Series& each : series) names.push_back(each.name);
  return names;
}

void DrawWhisker(Canvas& canvas, double x, double low, double high, std::string_view colour) {
  canvas.Line(x, low, x, high, colour, 1.2);
  canvas.Line(x - 3, low, x + 3, low, colour, 1.2);
  canvas.Line(x - 3, high, x + 3, high, colour, 1.2);
}

void DrawSeries(Canvas& canvas, const LineSeries& series, const Scale& x, const Scale& y,
                std::string_view colour) {
  const auto draw_run = [&](std::string& points) {
    if (!points.empty()) canvas.Polyline(points, colour);
    points.clear();
  };
  std::string points;
  for (size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    if (!x.Holds(series.x[i]) || !y.Holds(series.y[i])) {
      draw_run(points);
      continue;
    }
    const double px = x.Pixel(series.x[i]);
    const double py = y.Pixel(series.y[i]);
    absl::StrAppendFormat(&points, "%s%.2f,%.2f", points.empty() ? "" : " ", px, py);
    canvas.Dot(px, py, colour);
    if (i < std::min(series.low.size(), series.high.size()) && y.Holds(series.low[i]) &&
        y.Holds(series.high[i])) {
      DrawWhisker(canvas, px, y.Pixel(series.low[i]), y.Pixel(series.high[i]), colour);
    }
  }
  draw_run(points);
}

// White in the middle, blue towards 1, red towards 0.
std::string HeatColour(double share) {
  const double s = std::clamp(share, 0.0, 1.0);
  const double t = s < 0.5 ? s * 2 : (s - 0.5) * 2;
  const auto mix = [t](double from, double to) {
    return static_cast<int>(std::lround(from + (to - from) * t));
  };
  return s < 0.5 ? absl::StrFormat("#%02x%02x%02x", mix(190, 247), mix(55, 247), mix(40, 247))
                 : absl::StrFormat("#%02x%02x%02x", mix(247, 33), mix(247, 102), mix(247, 172));
}

// What share of the finite values lies in each of so many bins of equal width.
std::vector<double> SharesOfBins(const std::vector<double>& values, const Scale& scale,
                                 size_t bins) {
  const double width = (scale.max - scale.min) / static_cast<double>(bins);
  std::vector<double> shares(bins, 0);
  double total = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const auto bin = static_cast<size_t>((value - scale.min) / width);
    shares[std::min(bin, bins - 1)] += 1;
    total += 1;
  }
  for (double& share : shares) share = total > 0 ? share / total : 0;
  return shares;
}

// The outline of bars that stand side by side from one end of the axis to the other.
void DrawSteps(Canvas& canvas, const std::vector<double>& heights, const Scale& x, const Scale& y,
               std::string_view colour) {
  const double width = (x.to - x.from) / static_cast<double>(heights.size());
  std::string points;
  for (size_t i = 0; i < heights.size(); ++i) {
    const double left = x.from + width * static_cast<double>(i);
    const double top = y.Pixel(heights[i]);
    absl::StrAppendFormat(&points, "%s%.2f,%.2f %.2f,%.2f", i == 0 ? "" : " ", left, top,
                          left + width, top);
  }
  canvas.Polyline(points, colour);
}

void DrawCell(Canvas& canvas, const Box& cell, double value, double low, double high) {
  if (!std::isfinite(value)) {
    canvas.Rectangle(cell.left, cell.top, cell.width() - 1, cell.height() - 1, "#eeeeee");
    return;
  }
  const double share = high > low ? (value - low) / (high - low) : 0.5;
  canvas.Rectangle(cell.left, cell.top, cell.width() - 1, cell.height() - 1, HeatColour(share));
  const bool dark = share < 0.15 || share > 0.85;
  canvas.Text((cell.left + cell.right) / 2, (cell.top + cell.bottom) / 2 + 4, "middle",
              absl::StrFormat("%.2f", value), 0, dark ? "fill=\"#ffffff\"" : "fill=\"#222222\"");
}

// The bars of one group, side by side from `left` on.
void DrawGroup(Canvas& canvas, const std::vector<BarSeries>& all, size_t group, double left,
               double bar_width, const Scale& y) {
  for (size_t s = 0; s < all.size(); ++s) {
    const BarSeries& series = all[s];
    if (group >= series.values.size() || !y.Holds(series.values[group])) continue;
    const double x = left + bar_width * static_cast<double>(s);
    const double zero = y.Pixel(0);
    const double end = y.Pixel(series.values[group]);
    canvas.Rectangle(x, std::min(zero, end), bar_width * 0.92, std::abs(zero - end), Colour(s));
    if (group < std::min(series.low.size(), series.high.size()) && y.Holds(series.low[group]) &&
        y.Holds(series.high[group])) {
      DrawWhisker(canvas, x + bar_width * 0.46, y.Pixel(series.low[group]),
                  y.Pixel(series.high[group]), "#444444");
    }
  }
}

}  // namespace

std::string ToSvg(const LinePlot& plot) {
  Range x_range(plot.log_x);
  Range y_range(plot.log_y);
  for (const LineSeries& series : plot.series) {
    x_range.Add(series.x);
    y_range.Add(series.y);
    y_range.Add(series.low);
    y_range.Add(series.high);
  }
  const Box box;
  Scale x = x_range.ToScale();
  Scale y = y_range.ToScale();
  if (y.Holds(plot.y_min)) y.min = plot.y_min;
  if (y.Holds(plot.y_max)) y.max = plot.y_max;
  if (y.max <= y.min) y.max = y.min + 1;
  x.from = box.left;
  x.to = box.right;
  y.from = box.bottom;
  y.to = box.top;

  const std::vector<std::string> names = NamesOf(plot.series);
  Canvas canvas(kWidth, kHeight + LegendHeight(names));
  DrawTitles(canvas, box, plot.title, plot.x_label, box.bottom + 42, plot.y_label);
  DrawYAxis(canvas, box, y);
  DrawXAxis(canvas, box, x);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    DrawSeries(canvas, plot.series[i], x, y, Colour(i));
  }
  DrawLegend(canvas, names, kHeight - 8);
  return std::move(canvas).Finish();
}

std::string ToSvg(const BarPlot& plot) {
  Range range(/*log=*/false);
  range.Add(0);
  for (const BarSeries& series : plot.series) {
    range.Add(series.values);
    range.Add(series.high);
  }
  const Box box;
  Scale y = range.ToScale();
  y.min = std::min(0.0, y.min + (y.max - y.min) * 0.05);
  if (y.Holds(plot.y_max)) y.max = plot.y_max;
  if (y.max <= y.min) y.max = y.min + 1;
  y.from = box.bottom;
  y.to = box.top;

  const std::vector<std::string> names = NamesOf(plot.series);
  Canvas canvas(kWidth, kHeight + kSlantedLabels + LegendHeight(names));
  DrawTitles(canvas, box, plot.title, "", 0, plot.y_label);
  DrawYAxis(canvas, box, y);
  const double group_width =
      box.width() / static_cast<double>(std::max<size_t>(1, plot.groups.size()));
  const double bar_width =
      group_width * 0.8 / static_cast<double>(std::max<size_t>(1, plot.series.size()));
  for (size_t g = 0; g < plot.groups.size(); ++g) {
    const double left = box.left + group_width * (static_cast<double>(g) + 0.1);
    canvas.Text(left + group_width * 0.4, box.bottom + 16, "end", plot.groups[g], -35);
    DrawGroup(canvas, plot.series, g, left, bar_width, y);
  }
  DrawLegend(canvas, names, kHeight + kSlantedLabels - 8);
  return std::move(canvas).Finish();
}

std::string ToSvg(const HeatMap& plot) {
  const Box box;
  Canvas canvas(kWidth, kHeight);
  DrawTitles(canvas, box, plot.title, plot.x_label, box.bottom + 42, plot.y_label);
  const double width = box.width() / static_cast<double>(std::max<size_t>(1, plot.columns.size()));
  const double height = box.height() / static_cast<double>(std::max<size_t>(1, plot.rows.size()));
  for (size_t c = 0; c < plot.columns.size(); ++c) {
    canvas.Text(box.left + width * (static_cast<double>(c) + 0.5), box.bottom + 19, "middle",
                plot.columns[c]);
  }
  for (size_t r = 0; r < plot.rows.size(); ++r) {
    const double top = box.top + height * static_cast<double>(r);
    canvas.Text(box.left - 6, top + height / 2 + 4, "end", plot.rows[r]);
    for (size_t c = 0; c < plot.columns.size(); ++c) {
      const size_t index = r * plot.columns.size() + c;
      const double left = box.left + width * static_cast<double>(c);
      DrawCell(canvas, {left, top, left + width, top + height},
               index < plot.values.size() ? plot.values[index] : kNoValue, plot.low, plot.high);
    }
  }
  return std::move(canvas).Finish();
}

std::string ToSvg(const Histogram& plot) {
  Range range(/*log=*/false);
  for (const HistogramSeries& series : plot.series) range.Add(series.values);
  const Box box;
  Scale x = range.ToScale();
  x.from = box.left;
  x.to = box.right;
  const auto bins = static_cast<size_t>(std::max(1, plot.bins));
  Range share_range(/*log=*/false);
  share_range.Add(0);
  std::vector<std::vector<double>> shares;
  for (const HistogramSeries& series : plot.series) {
    shares.push_back(SharesOfBins(series.values, x, bins));
    share_range.Add(shares.back());
  }
  Scale y = share_range.ToScale();
  y.min = 0;
  y.from = box.bottom;
  y.to = box.top;

  const std::vector<std::string> names = NamesOf(plot.series);
  Canvas canvas(kWidth, kHeight + LegendHeight(names));
  DrawTitles(canvas, box, plot.title, plot.x_label, box.bottom + 42, "share");
  DrawYAxis(canvas, box, y);
  DrawXAxis(canvas, box, x);
  for (size_t i = 0; i < shares.size(); ++i) DrawSteps(canvas, shares[i], x, y, Colour(i));
  DrawLegend(canvas, names, kHeight - 8);
  return std::move(canvas).Finish();
}

}  // namespace anchorage::eval
