#include "eval/report/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace anchorage::eval {
namespace {

constexpr int kBarWidth = 20;

}  // namespace

std::string ShortDuration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return absl::StrFormat("%ds", whole);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
}

std::string ProgressLine(const std::string& label, double done, double skipped, double seconds_gone,
                         const std::string& detail) {
  const double share = std::clamp(done + skipped, 0.0, 1.0);
  const auto filled = static_cast<size_t>(share * kBarWidth);
  std::string line = absl::StrFormat("%s [%s%s] %d %%, %s gone", label, std::string(filled, '#'),
                                     std::string(kBarWidth - filled, '-'),
                                     static_cast<int>(share * 100), ShortDuration(seconds_gone));
  if (done > 0) {
    absl::StrAppendFormat(&line, ", %s left", ShortDuration(seconds_gone * (1 - share) / done));
  }
  if (!detail.empty()) absl::StrAppendFormat(&line, ", %s", detail);
  return line;
}

Progress::Progress(std::string label, int64_t total, const Clock& clock, std::FILE* out)
    : label_(std::move(label)),
      total_(std::max<int64_t>(1, total)),
      clock_(clock),
      out_(out),
      terminal_(isatty(fileno(out)) == 1),
      begin_ns_(clock.NowNs()),
      last_line_ns_(begin_ns_) {}

Progress::~Progress() {
  if (!terminal_) return;
  std::fprintf(out_, "\r\x1b[K");
  std::fflush(out_);
}

void Progress::Advance(int64_t work, const std::string& detail) {
  done_ += work;
  const int64_t now_ns = clock_.NowNs();
  const double since_line = static_cast<double>(now_ns - last_line_ns_) * 1e-9;
  if (!terminal_ && since_line < kSecondsBetweenLines) return;
  last_line_ns_ = now_ns;
  const double total = static_cast<double>(total_);
  const double gone = static_cast<double>(now_ns - begin_ns_) * 1e-9;
  const std::string line = ProgressLine(label_, static_cast<double>(done_) / total,
                                        static_cast<double>(skipped_) / total, gone, detail);
  std::fprintf(out_, terminal_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
  std::fflush(out_);
}

}  // namespace anchorage::eval
