#include "eval/report/svg_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace anchorage::eval {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A small reader of XML: every element is closed in order, attributes are quoted, text holds no
// bare '<' and '&' only in the five entities. "" when the document is well-formed.
std::string Complaint(const std::string& xml) {
  std::vector<std::string> open;
  size_t roots = 0;
  for (size_t at = 0; at < xml.size();) {
    if (xml[at] == '&') {
      const size_t end = xml.find(';', at);
      const std::string entity = xml.substr(at, end - at + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") {
        return "bad entity at " + std::to_string(at);
      }
      at = end + 1;
      continue;
    }
    if (xml[at] != '<') {
      if (static_cast<unsigned char>(xml[at]) < 0x20 && xml[at] != '\n') return "control character";
      if (open.empty() && xml[at] != '\n') return "text outside the root";
      ++at;
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return "unclosed tag";
    std::string tag = xml.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.find('<') != std::string::npos) return "'<' inside a tag: " + tag;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "odd quotes: " + tag;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) return "closes what is not open: " + tag;
      open.pop_back();
      continue;
    }
    if (open.empty() && ++roots > 1) return "two roots";
    if (!tag.ends_with("/")) open.push_back(tag.substr(0, tag.find(' ')));
  }
  if (!open.empty()) return "left open: " + open.back();
  return roots == 1 ? "" : "no root";
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(SvgPlotTest, TheReaderOfThisTestFindsMistakes) {
  EXPECT_EQ(Complaint("<svg><g a=\"1\">x &lt; y</g></svg>\n"), "");
  for (const char* broken : {"<svg><g></svg>", "<svg>a & b</svg>", "<svg", "<svg/><svg/>",
                             "<svg a=\"1></svg>", "text", "<svg>\x01</svg>"}) {
    EXPECT_NE(Complaint(broken), "") << broken;
  }
}

TEST(SvgPlotTest, EveryKindIsWellFormedWhateverItsTextsSay) {
  const std::string nasty = "<&\"'>\x01 R&D]]>";
  LinePlot lines{nasty, nasty, nasty, {{nasty, {1, 10}, {0.5, 0.25}, {0.4, 0.2}, {0.6, 0.3}}}};
  EXPECT_EQ(Complaint(ToSvg(lines)), "");
  lines.log_x = lines.log_y = true;
  EXPECT_EQ(Complaint(ToSvg(lines)), "");
  const BarPlot bars{nasty, nasty, {nasty, "b"}, {{nasty, {1, -2}, {0.5, -3}, {1.5, -1}}}};
  EXPECT_EQ(Complaint(ToSvg(bars)), "");
  const HeatMap map{nasty, nasty, nasty, {nasty, "b"}, {nasty}, {0.5, kNoValue}};
  EXPECT_EQ(Complaint(ToSvg(map)), "");
  const Histogram histogram{nasty, nasty, {{nasty, {1, 2, 2, 3}}}};
  EXPECT_EQ(Complaint(ToSvg(histogram)), "");
}

TEST(SvgPlotTest, NothingToDrawIsStillAPlot) {
  EXPECT_EQ(Complaint(ToSvg(LinePlot())), "");
  EXPECT_EQ(Complaint(ToSvg(BarPlot())), "");
  EXPECT_EQ(Complaint(ToSvg(HeatMap())), "");
  EXPECT_EQ(Complaint(ToSvg(Histogram())), "");
  const LinePlot gaps{"t", "x", "y", {{"a", {1, 2}, {kNoValue, kNoValue}, {}, {}}}};
  EXPECT_EQ(Complaint(ToSvg(gaps)), "");
  EXPECT_THAT(ToSvg(gaps), Not(HasSubstr("nan")));
}

TEST(SvgPlotTest, AGapSplitsTheLine) {
  LinePlot plot{"t", "x", "y", {{"a", {1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, {}, {}}}};
  EXPECT_EQ(Count(ToSvg(plot), "<polyline"), 1u);
  EXPECT_EQ(Count(ToSvg(plot), "<circle"), 5u);
  plot.series[0].y[2] = kNoValue;
  EXPECT_EQ(Count(ToSvg(plot), "<polyline"), 2u);
  EXPECT_EQ(Count(ToSvg(plot), "<circle"), 4u);
}

TEST(SvgPlotTest, ALogAxisPutsTheMiddleWhereItBelongs) {
  LinePlot plot{"t", "x", "y", {{"a", {1, 10, 100}, {0, 0.5, 1}, {}, {}}}};
  plot.log_x = true;
  // The axes end beyond the data by the same share on both sides, so 10 is in the middle of the
  // box, which spans 76..740 across and 44..358 down.
  EXPECT_THAT(ToSvg(plot), HasSubstr("<circle cx=\"408.00\" cy=\"201.00\""));
}

TEST(SvgPlotTest, BarsGrowWithTheirValues) {
  BarPlot plot{"t", "score", {"g"}, {{"a", {0.25}, {}, {}}, {"b", {0.5}, {}, {}}}};
  plot.y_max = 1;
  // The box is 314 high.
  EXPECT_THAT(ToSvg(plot), HasSubstr("height=\"78.50\" fill=\"#0072b2\""));
  EXPECT_THAT(ToSvg(plot), HasSubstr("height=\"157.00\" fill=\"#d55e00\""));
}

TEST(SvgPlotTest, ACellWithoutAValueIsGrey) {
  const std::string svg = ToSvg(HeatMap{"t", "x", "y", {"a", "b"}, {"r"}, {0, kNoValue}});
  EXPECT_EQ(Count(svg, "#eeeeee"), 1u);
  EXPECT_THAT(svg, HasSubstr(">0.00</text>"));
  EXPECT_EQ(Count(svg, "#be3728"), 1u);  // the red of the scale's lower end
}

}  // namespace
}  // namespace anchorage::eval
