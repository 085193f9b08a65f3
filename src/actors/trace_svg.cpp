// The timeline as a picture that stands alone: one row per track, time from left to right.
//
// A row stacks overlapping spans in lanes; runs of handlers that do no stage work are a thin strip
// below them. Spans closer than a pixel are drawn as one, and each stage of a row is one path, so
// that a trace of a million spans still makes a small file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>

#include "actors/intervals.h"
#include "actors/timeline.h"

namespace mzcache::actors {
namespace {

constexpr std::size_t kStages = static_cast<std::size_t>(Stage::kCount);
constexpr double kWidth = 1200;
constexpr double kLeft = 136;  // of the plot; labels stand before it
constexpr double kRight = 1176;
constexpr double kLegendLine = 24;
constexpr double kLegendTop = 20;
constexpr double kRowGap = 6;
constexpr double kStripHeight = 4;       // handlers under the lanes
constexpr double kLoneStripHeight = 12;  // handlers where a track has nothing else
constexpr double kRowHeightMin = 20;
constexpr double kLaneHeightMin = 3.5;
constexpr double kBarApart = 4;  // a bar this wide stands apart from its neighbour
constexpr double kGap = 0.7;
constexpr std::size_t kLanesMax = 16;
constexpr std::size_t kLabelMax = 18;  // bytes

struct Style {
  const char* fill;
  const char* label;
};
// Later ones are drawn over earlier ones. Distinguishable without seeing red and green apart.
constexpr std::array<std::pair<Stage, Style>, kStages> kStyles = {{
    {Stage::kWait, {"#f6c9cf", "waiting for units"}},
    {Stage::kHandler, {"#aab4c3", "message handling"}},
    {Stage::kRelease, {"#7d8794", "release"}},
    {Stage::kAllocate, {"#e8b71a", "allocate"}},
    {Stage::kRead, {"#2f7fe0", "read"}},
    {Stage::kWrite, {"#8a63d2", "write"}},
    {Stage::kDecode, {"#ef7d22", "decode"}},
    {Stage::kEncode, {"#b4441f", "encode"}},
    {Stage::kCompute, {"#1f9d6b", "compute"}},
}};

// Coordinates to a tenth of a pixel, as short as they go.
std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string escaped(std::string_view text) {
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
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string label_of(const std::string& name) {
  if (name.size() <= kLabelMax) return escaped(name);
  std::size_t cut = kLabelMax - 1;
  while (cut > 0 && (static_cast<unsigned char>(name[cut]) & 0xC0) == 0x80) --cut;
  return escaped(name.substr(0, cut)) + "…";
}

std::string duration_text(Nanoseconds time) {
  const double ms = static_cast<double>(time.count()) / 1e6;
  if (ms >= 9999.5) return fmt::format("{:.1f} s", ms / 1000);
  return ms >= 99.5 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.3g} ms", ms);
}

struct Scale {
  Nanoseconds begin{0};
  double per_pixel = 1;  // nanoseconds
  [[nodiscard]] double x(Nanoseconds time) const {
    return kLeft + static_cast<double>((time - begin).count()) / per_pixel;
  }
};

struct Row {
  std::uint32_t track = 0;
  std::vector<std::array<Intervals, kStages>> lanes;
  std::vector<Nanoseconds> lane_ends;
  Intervals strip;
  double top = 0;

  [[nodiscard]] double lane_height() const {
    const double full = (kRowHeightMin - (strip.empty() ? 0 : kStripHeight + 1));
    return std::max(kLaneHeightMin,
                    full / static_cast<double>(std::max<std::size_t>(lanes.size(), 1)));
  }
  [[nodiscard]] double lanes_height() const {
    return lanes.empty() ? 0 : lane_height() * static_cast<double>(lanes.size());
  }
  [[nodiscard]] double height() const {
    if (lanes.empty()) return kLoneStripHeight;
    return lanes_height() + (strip.empty() ? 0 : kStripHeight + 1);
  }
};

// The first lane that is free when the span begins; a new one where none is.
std::size_t lane_for(Row& row, const SpanRecord& span) {
  for (std::size_t i = 0; i < row.lane_ends.size(); ++i) {
    if (row.lane_ends[i] > span.begin) continue;
    row.lane_ends[i] = span.end;
    return i;
  }
  if (row.lanes.size() == kLanesMax) return kLanesMax - 1;
  row.lanes.emplace_back();
  row.lane_ends.push_back(span.end);
  return row.lanes.size() - 1;
}

// One row per track that has spans, in the order of tracks. Spans come sorted by begin.
std::vector<Row> rows_of(const TraceFile& trace) {
  std::vector<Row> rows(trace.tracks.size());
  for (const SpanRecord& span : trace.spans) {
    if (span.track >= rows.size() || span.stage >= Stage::kCount || span.counter) {
      continue;
    }
    Row& row = rows[span.track];
    if (span.stage == Stage::kHandler && !span.overlapping) {
      row.strip.emplace_back(span.begin, span.end);
    } else {
      row.lanes.reserve(kLanesMax);
      const std::size_t lane = lane_for(row, span);
      row.lanes[lane][static_cast<std::size_t>(span.stage)].emplace_back(span.begin, span.end);
    }
  }
  for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i].track = i;
  std::erase_if(rows, [](const Row& row) { return row.lanes.empty() && row.strip.empty(); });
  return rows;
}

// Rectangles of one lane as path commands. Neighbours closer than a pixel are joined, unless both
// are wide enough to show a gap between them.
void append_rectangles(std::string& path, const Intervals& intervals, const Scale& scale, double y,
                       double height) {
  std::vector<std::pair<double, double>> bars;
  for (const auto& [begin, end] : intervals) {
    const double left = scale.x(begin);
    const double right = std::max(scale.x(end), left + 0.6);
    if (bars.empty() || left - bars.back().second >= 1) {
      bars.emplace_back(left, right);
    } else if (std::min(right - left, bars.back().second - bars.back().first) >= kBarApart &&
               left >= bars.back().second) {
      bars.emplace_back(bars.back().second + kGap, right);
    } else {
      bars.back().second = std::max(bars.back().second, right);
    }
  }
  for (const auto& [left, right] : bars) {
    const std::string width = px(right - left);
    fmt::format_to(std::back_inserter(path), "M{} {}h{}v{}h-{}z", px(left), px(y), width,
                   px(height), width);
  }
}

void append_background(std::string& out, const Row& row, const TraceFile& trace) {
  fmt::format_to(std::back_inserter(out),
                 "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f5f7fa\"/>\n"
                 "<text class=\"r\" x=\"{}\" y=\"{}\">{}</text>\n",
                 px(kLeft), px(row.top), px(kRight - kLeft), px(row.height()), px(kLeft - 10),
                 px(row.top + row.height() / 2 + 4), label_of(trace.tracks[row.track]));
}

void append_spans(std::string& out, const Row& row, const Scale& scale) {
  for (const auto& [stage, style] : kStyles) {
    std::string path;
    const double lane_height = row.lane_height();
    const double gap = row.lanes.size() > 1 ? 0.5 : 0;
    for (std::size_t lane = 0; lane < row.lanes.size(); ++lane) {
      append_rectangles(path, row.lanes[lane][static_cast<std::size_t>(stage)], scale,
                        row.top + lane_height * static_cast<double>(lane), lane_height - gap);
    }
    if (stage == Stage::kHandler) {
      const double height = row.lanes.empty() ? kLoneStripHeight : kStripHeight;
      append_rectangles(path, row.strip, scale, row.top + row.height() - height, height);
    }
    if (path.empty()) continue;
    fmt::format_to(std::back_inserter(out), "<path fill=\"{}\" d=\"{}\"/>\n", style.fill, path);
  }
}

// 1, 2 or 5 times a power of ten, so that about ten steps fit.
double tick_step(double span) {
  const double rough = std::max(span / 10, 1.0);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

void append_axis(std::string& out, Nanoseconds span, const Scale& scale, double top,
                 double bottom) {
  const double step = tick_step(static_cast<double>(span.count()));
  std::string lines;
  const auto steps = static_cast<std::int64_t>(static_cast<double>(span.count()) / step);
  for (std::int64_t i = 0; i <= steps; ++i) {
    const double at = static_cast<double>(i) * step;
    const double x = scale.x(scale.begin + Nanoseconds(std::llround(at)));
    fmt::format_to(std::back_inserter(lines), "M{} {}V{}", px(x), px(top), px(bottom + 4));
    fmt::format_to(std::back_inserter(out), "<text class=\"t\" x=\"{}\" y=\"{}\">{:g}</text>\n",
                   px(x), px(bottom + 18), at / 1e6);
  }
  fmt::format_to(std::back_inserter(out),
                 "<path stroke=\"#dfe4ea\" d=\"{}\"/>\n"
                 "<text class=\"r\" x=\"{}\" y=\"{}\">ms</text>\n",
                 lines, px(kLeft - 10), px(bottom + 18));
}

// Colour, stage, busy time, and for the stages of a restore how much of it the device computed.
// Returns the height it took.
double append_legend(std::string& out, const TraceSummary& summary) {
  double x = kLeft;
  double y = kLegendTop;
  const bool computes =
      std::any_of(summary.stages.begin(), summary.stages.end(),
                  [](const StageSummary& s) { return s.stage == Stage::kCompute; });
  for (const auto& style_of : kStyles) {
    const Stage stage = style_of.first;
    const auto it = std::find_if(summary.stages.begin(), summary.stages.end(),
                                 [&](const StageSummary& s) { return s.stage == stage; });
    if (it == summary.stages.end()) continue;
    std::string text = fmt::format("{} {}", style_of.second.label, duration_text(it->busy));
    const bool work = stage != Stage::kCompute && stage != Stage::kWait && stage != Stage::kHandler;
    if (computes && work && it->busy.count() > 0) {
      text += fmt::format(" ({:.0f}% under compute)",
                          100.0 * static_cast<double>(it->with_compute.count()) /
                              static_cast<double>(it->busy.count()));
    }
    const double width = 18 + 6.7 * static_cast<double>(text.size()) + 16;
    if (x > kLeft && x + width > kRight) {
      x = kLeft;
      y += kLegendLine;
    }
    fmt::format_to(std::back_inserter(out),
                   "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"3\" fill=\"{}\"/>"
                   "<text x=\"{}\" y=\"{}\">{}</text>\n",
                   px(x), px(y - 10), style_of.second.fill, px(x + 18), px(y), text);
    x += width;
  }
  return y;
}

}  // namespace

std::string render_svg(const TraceFile& trace) {
  std::vector<Row> rows = rows_of(trace);
  TraceSummary summary = summarize(trace.spans);
  const Nanoseconds span = std::max(summary.end - summary.begin, Nanoseconds{1});
  const Scale scale{summary.begin, static_cast<double>(span.count()) / (kRight - kLeft)};

  std::string body;
  const double top = append_legend(body, summary) + 18;
  double y = top;
  for (Row& row : rows) {
    row.top = y;
    y += row.height() + kRowGap;
  }
  const double bottom = rows.empty() ? top : y - kRowGap;
  for (const Row& row : rows) append_background(body, row, trace);
  if (rows.empty()) {
    fmt::format_to(std::back_inserter(body), "<text x=\"{}\" y=\"{}\">no spans</text>\n", px(kLeft),
                   px(top));
  } else {
    append_axis(body, span, scale, top, bottom);
  }
  for (const Row& row : rows) append_spans(body, row, scale);
  const double height = bottom + 30;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\">\n"
             "<style>text{{font:12px system-ui,-apple-system,\"Segoe UI\",Helvetica,Arial,"
             "sans-serif;fill:#2d3540}}.r{{text-anchor:end}}.t{{text-anchor:middle;fill:#6b7580}}"
             "</style>\n"
             "<rect width=\"{0}\" height=\"{1}\" rx=\"8\" fill=\"#fff\"/>\n",
             px(kWidth), px(height)) +
         body + "</svg>\n";
}

}  // namespace mzcache::actors
