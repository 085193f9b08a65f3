// The timeline: recording from many threads, the Chrome trace event format, the summary, the
// picture.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "actors/intervals.h"
#include "actors/sim_dispatcher.h"
#include "actors/timeline.h"
#include "support/catch.h"

namespace mzcache::actors {
namespace {

using Json = nlohmann::json;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// A file of this test run, removed at the end of its test.
class TempFile {
 public:
  explicit TempFile(const std::string& content = "") {
    char name[] = "/tmp/mzcache-trace-XXXXXX";
    const int descriptor = mkstemp(name);
    REQUIRE(descriptor >= 0);
    path_ = name;
    std::ofstream(path_) << content;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

SpanRecord make_span(std::uint32_t track, Stage stage, Nanoseconds begin, Nanoseconds end) {
  SpanRecord span;
  span.track = track;
  span.stage = stage;
  span.name = "Work";
  span.begin = begin;
  span.end = end;
  return span;
}

bool same(const SpanRecord& a, const SpanRecord& b) {
  return a.track == b.track && a.stage == b.stage && a.overlapping == b.overlapping &&
         a.cpu == b.cpu && std::string_view(a.name) == b.name && a.begin == b.begin &&
         a.end == b.end && a.has_unit == b.has_unit && a.unit == b.unit && a.bytes == b.bytes &&
         a.counter == b.counter;
}

// A restore in small: reads in flight overlap one another and the device's work.
void record_restore(Timeline& timeline) {
  const std::uint32_t reader = timeline.add_track("storage-reader");
  const std::uint32_t silent = timeline.add_track("silent");
  const std::uint32_t gpu = timeline.add_track("gpu \"0\" <&>");
  REQUIRE(silent == reader + 1);
  for (std::uint32_t i = 0; i < 8; ++i) {
    SpanRecord span = make_span(reader, Stage::kRead, microseconds(100 * i) + Nanoseconds(123),
                                microseconds(100 * i + 250) + Nanoseconds(7));
    span.overlapping = true;
    span.unit = i % 2 == 0 ? weights_unit(i) : kv_unit(3, i, 9);
    span.has_unit = true;
    span.bytes = 1 << 20;
    timeline.record(span);
    span = make_span(gpu, i == 0 ? Stage::kWait : Stage::kCompute, microseconds(150 * i),
                     microseconds(150 * i + 140));
    span.cpu = static_cast<std::int32_t>(i % 2);
    timeline.record(span);
    timeline.record(make_span(reader, Stage::kHandler, microseconds(100 * i),
                              microseconds(100 * i) + Nanoseconds(900)));
  }
  SpanRecord head = make_span(gpu, Stage::kCompute, microseconds(2000), microseconds(2100));
  head.unit = head_unit(8);
  head.has_unit = true;
  timeline.record(head);
}

TEST_CASE("timeline: nothing is kept while disabled, everything while enabled") {
  Timeline timeline;
  const std::uint32_t track = timeline.add_track("a");
  timeline.record(make_span(track, Stage::kRead, Nanoseconds(1), Nanoseconds(2)));
  CHECK(timeline.snapshot().empty());
  timeline.enable(true);
  timeline.record(make_span(track, Stage::kRead, Nanoseconds(5), Nanoseconds(6)));
  timeline.record(make_span(track, Stage::kRead, Nanoseconds(3), Nanoseconds(4)));
  timeline.record(make_span(track, Stage::kDecode, Nanoseconds(3), Nanoseconds(9)));
  const auto spans = timeline.snapshot();
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].stage == Stage::kDecode);  // of two that begin together the enclosing one first
  CHECK(spans[1].begin == Nanoseconds(3));
  CHECK(spans[2].begin == Nanoseconds(5));
  timeline.clear();
  CHECK(timeline.snapshot().empty());
  CHECK(timeline.tracks() == std::vector<std::string>{"a"});
  timeline.record(make_span(track, Stage::kRead, Nanoseconds(7), Nanoseconds(8)));
  CHECK(timeline.snapshot().size() == 1);
}

TEST_CASE("timeline: threads record while another one looks") {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::int64_t kEach = 20'000;  // several blocks
  Timeline timeline;
  Timeline other;  // threads may serve two timelines
  timeline.enable(true);
  other.enable(true);
  std::atomic<bool> done{false};
  std::thread observer([&] {
    std::size_t last = 0;
    bool grows = true;
    while (!done.load()) {
      const std::size_t count = timeline.snapshot().size();
      grows = grows && count >= last;
      last = count;
    }
    CHECK(grows);
  });
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int64_t i = 0; i < kEach; ++i) {
        timeline.record(make_span(thread, Stage::kRead, Nanoseconds(i), Nanoseconds(i + 1)));
        if (i % 1000 == 0) {
          other.record(make_span(thread, Stage::kRead, Nanoseconds(i), Nanoseconds(i + 1)));
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  done.store(true);
  observer.join();
  std::map<std::uint32_t, std::int64_t> next;
  bool complete = true;
  const auto spans = timeline.snapshot();
  for (const SpanRecord& span : spans) {
    complete = complete && span.begin.count() == next[span.track]++;
  }
  CHECK(complete);
  CHECK(spans.size() == kThreads * kEach);
  CHECK(other.snapshot().size() == kThreads * kEach / 1000);
  CHECK(timeline.dropped() == 0);
}

TEST_CASE("timeline: clear while a thread records loses nothing recorded later") {
  Timeline timeline;
  timeline.enable(true);
  std::atomic<int> phase{0};
  std::thread recorder([&] {
    const SpanRecord span = make_span(0, Stage::kRead, Nanoseconds(1), Nanoseconds(2));
    while (phase.load() == 0) timeline.record(span);
    timeline.record(make_span(0, Stage::kWrite, Nanoseconds(3), Nanoseconds(4)));
  });
  for (int i = 0; i < 200; ++i) timeline.clear();
  phase.store(1);
  recorder.join();
  const auto spans = timeline.snapshot();
  CHECK(std::count_if(spans.begin(), spans.end(),
                      [](const SpanRecord& span) { return span.stage == Stage::kWrite; }) == 1);
}

TEST_CASE("timeline: a thread's spans are bounded, the oldest are kept, the rest is counted") {
  constexpr std::int64_t kMax = 256 * 4096;
  Timeline timeline;
  timeline.enable(true);
  for (std::int64_t i = 0; i < kMax + 10; ++i) {
    timeline.record(make_span(0, Stage::kRead, Nanoseconds(i), Nanoseconds(i + 1)));
  }
  CHECK(timeline.dropped() == 10);
  const auto spans = timeline.snapshot();
  REQUIRE(spans.size() == kMax);
  CHECK(spans.back().begin == Nanoseconds(kMax - 1));
}

// The Chrome trace event format, as far as we use it: required fields and their types.
void check_event(const Json& event) {
  REQUIRE(event.is_object());
  REQUIRE(event.at("ph").is_string());
  const std::string phase = event.at("ph");
  CHECK(event.at("name").is_string());
  CHECK(event.at("pid").is_number_integer());
  CHECK(event.at("tid").is_number_integer());
  if (phase == "M") {
    CHECK(event.at("args").is_object());
    return;
  }
  CHECK(event.at("ts").is_number());
  CHECK(event.at("cat").is_string());
  if (phase == "C") {
    CHECK(event.at("args").at("value").is_number_unsigned());
    return;
  }
  if (phase == "X") {
    CHECK(event.at("dur").is_number());
    CHECK(event.at("dur").get<double>() >= 0);
  } else {
    CHECK((phase == "b" || phase == "e"));
    CHECK(event.at("id").is_string());
  }
  if (phase == "e") return;
  const Json& args = event.at("args");
  CHECK(args.at("stage").is_string());
  for (const char* key : {"cpu", "bytes", "layer", "context", "chunk"}) {
    if (args.contains(key)) CHECK(args.at(key).is_number_unsigned());
  }
  if (args.contains("unit")) CHECK(args.at("unit").is_string());
}

TEST_CASE("timeline: the JSON is in the Chrome trace event format") {
  Timeline timeline;
  timeline.enable(true);
  record_restore(timeline);
  const Json json = Json::parse(timeline.chrome_json());
  CHECK(json.at("displayTimeUnit") == "ms");
  std::map<int, double> last_end;  // by thread
  std::map<std::string, double> open;
  std::map<int, std::string> names;
  std::size_t complete = 0;
  std::size_t pairs = 0;
  for (const Json& event : json.at("traceEvents")) {
    check_event(event);
    const std::string phase = event.at("ph");
    const int thread = event.at("tid");
    if (phase == "M" && event.at("name") == "thread_name") {
      names[thread] = event.at("args").at("name");
    } else if (phase == "X") {
      ++complete;  // complete events of a thread come in order and do not overlap
      CHECK(event.at("ts").get<double>() >= last_end[thread]);
      last_end[thread] = event.at("ts").get<double>() + event.at("dur").get<double>();
    } else if (phase == "b") {
      CHECK(open.emplace(event.at("id"), event.at("ts").get<double>()).second);
    } else if (phase == "e") {
      ++pairs;
      REQUIRE(open.count(event.at("id")) == 1);
      CHECK(event.at("ts").get<double>() >= open.at(event.at("id")));
      open.erase(event.at("id").get<std::string>());
    }
  }
  CHECK(complete == 17);
  CHECK(pairs == 8);
  CHECK(open.empty());
  CHECK(names ==
        std::map<int, std::string>{{1, "storage-reader"}, {2, "silent"}, {3, "gpu \"0\" <&>"}});
}

TEST_CASE("timeline: what is written reads back the same") {
  Timeline timeline;
  timeline.enable(true);
  record_restore(timeline);
  // Times as large as an uptime of forty days keep their nanoseconds.
  const Nanoseconds late = std::chrono::hours(24 * 40) + Nanoseconds(123'456'789);
  timeline.record(make_span(0, Stage::kEncode, late, late + Nanoseconds(1)));
  SpanRecord sample = make_span(0, Stage::kHandler, late, late);
  sample.name = kReadsInFlight;
  sample.counter = true;
  sample.bytes = 7;
  timeline.record(sample);
  const TempFile file;
  REQUIRE(timeline.write_chrome_json(file.path()).ok());
  const auto trace = read_chrome_json(file.path());
  REQUIRE(trace.ok());
  CHECK(trace->tracks == timeline.tracks());
  const auto spans = timeline.snapshot();
  REQUIRE(trace->spans.size() == spans.size());
  for (const SpanRecord& span : spans) {
    INFO(span.name << " at " << span.begin.count());
    CHECK(std::any_of(trace->spans.begin(), trace->spans.end(),
                      [&](const SpanRecord& other) { return same(span, other); }));
  }
}

TEST_CASE("timeline: a foreign trace is read for what we know of it") {
  const TempFile file(R"([
    {"ph":"X","name":"Foreign","ts":10,"dur":5.5,"pid":7,"tid":8,"args":{"stage":3,"cpu":"x"}},
    {"ph":"X","name":"No duration","ts":10,"pid":7,"tid":8},
    {"ph":"X","name":"Huge","ts":1e300,"dur":1,"pid":7,"tid":8},
    {"ph":"X","ts":20,"dur":-4,"pid":7,"tid":8,"args":[1]},
    {"ph":"B","name":"begin","ts":1,"pid":1,"tid":1},
    {"ph":"e","name":"never begun","id":1,"ts":1,"pid":1,"tid":1},
    {"ph":"b","name":"never ended","id":2,"ts":1,"pid":1,"tid":1},
    {"ph":"M","name":"thread_name","pid":7,"tid":8,"args":{"name":"theirs"}},
    {"ph":"M","name":"thread_name","pid":7,"tid":9},
    {"ph":5}, {"name":"no phase"}, 17, null, [], "text"
  ])");
  const auto trace = read_chrome_json(file.path());
  REQUIRE(trace.ok());
  REQUIRE(trace->spans.size() == 2);
  CHECK(std::string_view(trace->spans[0].name) == "Foreign");
  CHECK(trace->spans[0].begin == microseconds(10));
  CHECK(trace->spans[0].end == Nanoseconds(15'500));
  CHECK(trace->spans[0].cpu == -1);
  CHECK(trace->spans[1].end == trace->spans[1].begin);
  CHECK(trace->tracks[trace->spans[0].track] == "theirs");
}

TEST_CASE("timeline: files that are no trace are refused by name") {
  const auto missing = read_chrome_json("/nonexistent/trace.json");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK(missing.error().message().find("/nonexistent/trace.json") != std::string::npos);
  for (const char* content : {"", "{", "{\"traceEvents\":5}", "{}", "17", "\xFF\xFE", "[1,"}) {
    const TempFile file(content);
    const auto trace = read_chrome_json(file.path());
    INFO(content);
    REQUIRE_FALSE(trace.ok());
    CHECK(trace.error().code == ErrorCode::kBadFormat);
    CHECK(trace.error().message().find(file.path()) != std::string::npos);
  }
  Timeline timeline;
  const auto written = timeline.write_chrome_json("/nonexistent/out.json");
  REQUIRE_FALSE(written.ok());
  CHECK(written.error().code == ErrorCode::kIo);
  CHECK(written.error().message().find("/nonexistent/out.json") != std::string::npos);
}

TEST_CASE("intervals: sets and their overlap agree with counting moments") {
  std::mt19937_64 random(20'240'601);
  for (int round = 0; round < 200; ++round) {
    Intervals raw[2];
    bool held[2][100] = {};
    for (int set = 0; set < 2; ++set) {
      for (std::uint64_t i = 0, n = random() % 8; i < n; ++i) {
        const std::uint64_t begin = random() % 100;
        const std::uint64_t end = std::min<std::uint64_t>(100, begin + random() % 20);
        raw[set].emplace_back(begin, end);
        for (std::uint64_t at = begin; at < end; ++at) held[set][at] = true;
      }
    }
    const Intervals a = normalized(raw[0]);
    const Intervals b = normalized(raw[1]);
    std::int64_t in_a = 0;
    std::int64_t in_both = 0;
    for (int at = 0; at < 100; ++at) {
      in_a += held[0][at] ? 1 : 0;
      in_both += held[0][at] && held[1][at] ? 1 : 0;
    }
    INFO("round " << round);
    CHECK(total(a).count() == in_a);
    CHECK(overlap(a, b).count() == in_both);
    CHECK(overlap(b, a).count() == in_both);
  }
}

TEST_CASE("timeline: the summary counts unions and overlaps") {
  std::vector<SpanRecord> spans = {
      make_span(0, Stage::kRead, milliseconds(0), milliseconds(10)),
      make_span(0, Stage::kRead, milliseconds(5), milliseconds(20)),  // union 20
      make_span(1, Stage::kCompute, milliseconds(15), milliseconds(40)),
      make_span(2, Stage::kDecode, milliseconds(18), milliseconds(19)),
      make_span(2, Stage::kDecode, milliseconds(50), milliseconds(51)),
      make_span(3, Stage::kHandler, milliseconds(0), milliseconds(60)),
      make_span(1, Stage::kWait, milliseconds(40), milliseconds(52)),
  };
  spans[0].bytes = 100;
  spans[1].bytes = 11;
  const TraceSummary summary = summarize(spans);
  CHECK(summary.begin == milliseconds(0));
  CHECK(summary.end == milliseconds(60));
  std::map<Stage, StageSummary> by_stage;
  for (const StageSummary& stage : summary.stages) by_stage[stage.stage] = stage;
  REQUIRE(by_stage.size() == 5);
  CHECK(by_stage[Stage::kRead].busy == milliseconds(20));
  CHECK(by_stage[Stage::kRead].with_compute == milliseconds(5));
  CHECK(by_stage[Stage::kRead].with_others == milliseconds(5));
  CHECK(by_stage[Stage::kRead].spans == 2);
  CHECK(by_stage[Stage::kRead].bytes == 111);
  CHECK(by_stage[Stage::kCompute].busy == milliseconds(25));
  CHECK(by_stage[Stage::kCompute].with_others == milliseconds(5));  // not handlers, not waits
  CHECK(by_stage[Stage::kDecode].busy == milliseconds(2));
  CHECK(by_stage[Stage::kDecode].with_compute == milliseconds(1));
  CHECK(by_stage[Stage::kWait].busy == milliseconds(12));
  CHECK(by_stage[Stage::kWait].with_others == milliseconds(1));
  CHECK(summarize({}).stages.empty());
}

// Tags balanced, attributes quoted, text escaped: enough to say that a viewer will parse it.
bool well_formed(const std::string& xml) {
  static const std::regex tag(R"RE(<(/?)([a-zA-Z]+)((?:\s+[a-zA-Z:]+="[^"<]*")*)\s*(/?)>)RE",
                              std::regex::optimize);
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < xml.size()) {
    if (xml[at] == '>') return false;
    if (xml[at] == '&') {
      if (!std::regex_search(xml.begin() + static_cast<std::ptrdiff_t>(at), xml.end(),
                             std::regex("^&(amp|lt|gt|quot);"),
                             std::regex_constants::match_continuous)) {
        return false;
      }
    }
    if (xml[at] != '<') {
      ++at;
      continue;
    }
    // Long path data would exhaust std::regex's recursion: match the tag without it.
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    std::string text = xml.substr(at, end - at + 1);
    const std::size_t data = text.find(" d=\"");
    if (data != std::string::npos) {
      const std::size_t close = text.find('"', data + 4);
      if (close == std::string::npos) return false;
      text.erase(data, close + 1 - data);
    }
    std::smatch match;
    if (!std::regex_match(text, match, tag)) return false;
    if (match[1].length() != 0) {
      if (open.empty() || open.back() != match[2]) return false;
      open.pop_back();
    } else if (match[4].length() == 0) {
      open.push_back(match[2]);
    }
    at = end + 1;
  }
  return open.empty();
}

TraceFile as_file(const Timeline& timeline) { return {timeline.tracks(), timeline.snapshot(), {}}; }

TEST_CASE("timeline: the picture is well-formed, has rows, axis, legend, and no idle rows") {
  Timeline timeline;
  timeline.enable(true);
  record_restore(timeline);
  const std::string svg = render_svg(as_file(timeline));
  CHECK(well_formed(svg));
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.find("storage-reader") != std::string::npos);
  CHECK(svg.find("gpu &quot;0&quot; &lt;&amp;&gt;") != std::string::npos);
  CHECK(svg.find("silent") == std::string::npos);
  CHECK(svg.find("compute 1.08 ms") != std::string::npos);  // 7 × 140 µs + 100 µs
  CHECK(svg.find("% under compute") != std::string::npos);
  CHECK(svg.find(">ms</text>") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("timeline: pictures of nothing, of one moment, and of too much") {
  CHECK(well_formed(render_svg({})));
  CHECK(render_svg({}).find("no spans") != std::string::npos);

  TraceFile moment;
  moment.tracks = {"bad \x01 name, longer than the column is wide: \xC3\xA9\xC3\xA9"};
  moment.spans = {make_span(0, Stage::kRead, Nanoseconds(5), Nanoseconds(5)),
                  make_span(9, Stage::kRead, Nanoseconds(5), Nanoseconds(5))};  // no such track
  CHECK(well_formed(render_svg(moment)));
  CHECK(render_svg(moment).find('\x01') == std::string::npos);

  // A million spans in a thousand pixels: neighbours are merged.
  TraceFile many;
  many.tracks = {"reader", "gpu"};
  for (int i = 0; i < 1'000'000; ++i) {
    many.spans.push_back(make_span(static_cast<std::uint32_t>(i % 2),
                                   i % 2 == 0 ? Stage::kRead : Stage::kCompute, microseconds(i),
                                   microseconds(i + (i % 3 == 0 ? 40 : 1))));
  }
  const std::string svg = render_svg(many);
  CHECK(well_formed(svg));
  CHECK(svg.size() < 100'000);
}

}  // namespace
}  // namespace mzcache::actors
