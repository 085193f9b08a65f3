// The timeline as Chrome trace event JSON, and back.
//
// A counter's value is an event "C". Per span: one complete event ("X") on its track's thread, or,
// where spans of a track may overlap, a pair of async events ("b", "e") with an id of its own.
// Times are microseconds with three decimals: nanoseconds survive the round trip (up to 50 days of
// uptime; readers hold doubles).
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "actors/timeline.h"

namespace mzcache::actors {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kTraceBytesMax = std::uint64_t{1} << 30;
constexpr const char* kTraceHint = "give a file that --trace wrote";

Error not_a_trace(const std::string& path, const std::string& what) {
  return {.code = ErrorCode::kBadFormat,
          .native = 0,
          .operation = "read trace",
          .context = path + ": " + what,
          .hint = kTraceHint};
}
constexpr int kProcess = 1;

std::string json_text(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view unit_kind_name(UnitKind kind) noexcept {
  switch (kind) {
    case UnitKind::kWeights:
      return "weights";
    case UnitKind::kKv:
      return "kv";
    case UnitKind::kHead:
      return "head";
  }
  return "unknown";
}

void append_microseconds(std::string& out, Nanoseconds time) {
  const auto magnitude = static_cast<std::uint64_t>(std::abs(time.count()));
  fmt::format_to(std::back_inserter(out), "{}{}.{:03}", time.count() < 0 ? "-" : "",
                 magnitude / 1000, magnitude % 1000);
}

void append_args(std::string& out, const SpanRecord& span) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, R"("args":{{"stage":"{}")", stage_name(span.stage));
  if (span.cpu >= 0) fmt::format_to(to, R"(,"cpu":{})", span.cpu);
  if (span.bytes != 0) fmt::format_to(to, R"(,"bytes":{})", span.bytes);
  if (span.has_unit) {
    fmt::format_to(to, R"(,"unit":"{}","layer":{})", unit_kind_name(span.unit.kind),
                   span.unit.layer);
    if (span.unit.kind == UnitKind::kKv) {
      fmt::format_to(to, R"(,"context":{},"chunk":{})", span.unit.context, span.unit.chunk);
    }
  }
  out += '}';
}

void append_head(std::string& out, char phase, const SpanRecord& span, Nanoseconds time) {
  fmt::format_to(std::back_inserter(out), R"(,
{{"ph":"{}","name":{},"cat":"{}","pid":{},"tid":{},"ts":)",
                 phase, json_text(span.name), stage_name(span.stage), kProcess, span.track + 1);
  append_microseconds(out, time);
}

void append_span(std::string& out, const SpanRecord& span, std::uint64_t id) {
  if (span.counter) {
    append_head(out, 'C', span, span.begin);
    fmt::format_to(std::back_inserter(out), R"(,"args":{{"value":{}}}}})", span.bytes);
    return;
  }
  if (!span.overlapping) {
    append_head(out, 'X', span, span.begin);
    out += R"(,"dur":)";
    append_microseconds(out, span.end - span.begin);
    out += ',';
    append_args(out, span);
    out += '}';
    return;
  }
  append_head(out, 'b', span, span.begin);
  fmt::format_to(std::back_inserter(out), R"(,"id":"0x{:x}",)", id);
  append_args(out, span);
  out += '}';
  append_head(out, 'e', span, span.end);
  fmt::format_to(std::back_inserter(out), R"(,"id":"0x{:x}"}})", id);
}

// ---------------------------------------------------------------- reading

// A number of an object, or what to take where it is missing or no number.
double number(const Json& object, const char* key, double otherwise) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : otherwise;
}

std::string text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// A count that fits 32 bits; 0 for anything else a foreign file may hold.
std::uint32_t small_count(const Json& object, const char* key) {
  const double value = number(object, key, 0);
  return value >= 0 && value <= 4294967295.0 ? static_cast<std::uint32_t>(value) : 0;
}

// Microseconds as nanoseconds; false where missing or so large that a sum of two would overflow.
bool to_nanoseconds(const Json& event, const char* key, Nanoseconds& time) {
  const double microseconds = number(event, key, std::nan(""));
  if (!(std::abs(microseconds) <= 4e15)) return false;
  time = Nanoseconds(std::llround(microseconds * 1000));
  return true;
}

Stage stage_from(std::string_view name) noexcept {
  for (int i = 0; i < static_cast<int>(Stage::kCount); ++i) {
    if (stage_name(static_cast<Stage>(i)) == name) return static_cast<Stage>(i);
  }
  return Stage::kHandler;
}

void read_args(const Json& event, SpanRecord& span) {
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) return;
  span.stage = stage_from(text(*args, "stage"));
  const double cpu = number(*args, "cpu", -1);
  span.cpu = cpu >= 0 && cpu < 1e6 ? static_cast<std::int32_t>(cpu) : -1;
  const double bytes = number(*args, "bytes", 0);
  span.bytes = bytes >= 0 && bytes < 9e15 ? static_cast<std::uint64_t>(bytes) : 0;
  const std::string unit = text(*args, "unit");
  for (const UnitKind kind : {UnitKind::kWeights, UnitKind::kKv, UnitKind::kHead}) {
    if (unit != unit_kind_name(kind)) continue;
    span.has_unit = true;
    span.unit = {kind, small_count(*args, "layer"), small_count(*args, "context"),
                 small_count(*args, "chunk")};
  }
}

// Gathers events into a TraceFile. Events it does not know are passed over.
class Reader {
 public:
  explicit Reader(TraceFile& trace) : trace_(trace) {}

  void read(const Json& event) {
    if (!event.is_object()) return;
    const std::string phase = text(event, "ph");
    if (phase == "M") {
      if (text(event, "name") != "thread_name") return;
      const auto args = event.find("args");
      if (args == event.end() || !args->is_object()) return;
      trace_.tracks[track(event)] = text(*args, "name");
    } else if (phase == "X") {
      read_complete(event);
    } else if (phase == "C") {
      read_counter(event);
    } else if (phase == "b" || phase == "e") {
      read_async(event, phase == "b");
    }
  }

 private:
  using ThreadKey = std::pair<double, double>;

  std::uint32_t track(const Json& event) {
    const ThreadKey key{number(event, "pid", 0), number(event, "tid", 0)};
    const auto [it, fresh] = tracks_.try_emplace(key, static_cast<std::uint32_t>(tracks_.size()));
    if (fresh) trace_.tracks.push_back(fmt::format("thread {}", key.second));
    return it->second;
  }
  const char* name(const Json& event) {
    std::string value = text(event, "name");
    const auto [it, fresh] = names_.try_emplace(std::move(value), nullptr);
    if (fresh) {
      trace_.names.push_back(std::make_unique<std::string>(it->first));
      it->second = trace_.names.back()->c_str();
    }
    return it->second;
  }
  void read_complete(const Json& event) {
    SpanRecord span;
    Nanoseconds duration{0};
    if (!to_nanoseconds(event, "ts", span.begin) || !to_nanoseconds(event, "dur", duration)) return;
    span.track = track(event);
    span.name = name(event);
    span.end = span.begin + std::max(duration, Nanoseconds{0});
    read_args(event, span);
    trace_.spans.push_back(span);
  }
  void read_counter(const Json& event) {
    SpanRecord sample;
    const auto args = event.find("args");
    if (args == event.end() || !to_nanoseconds(event, "ts", sample.begin)) return;
    sample.counter = true;
    sample.track = track(event);
    sample.name = name(event);
    sample.end = sample.begin;
    const double value = args->is_object() ? number(*args, "value", 0) : 0;
    sample.bytes = value >= 0 && value < 9e15 ? static_cast<std::uint64_t>(value) : 0;
    trace_.spans.push_back(sample);
  }
  void read_async(const Json& event, bool begins) {
    Nanoseconds time{0};
    const auto id = event.find("id");
    if (id == event.end() || !to_nanoseconds(event, "ts", time)) return;
    const std::string key = text(event, "cat") + '\n' + text(event, "name") + '\n' + id->dump();
    if (begins) {
      SpanRecord span;
      span.overlapping = true;
      span.track = track(event);
      span.name = name(event);
      span.begin = time;
      read_args(event, span);
      open_.insert_or_assign(key, span);
      return;
    }
    const auto it = open_.find(key);
    if (it == open_.end()) return;
    it->second.end = std::max(time, it->second.begin);
    trace_.spans.push_back(it->second);
    open_.erase(it);
  }

  TraceFile& trace_;
  std::map<ThreadKey, std::uint32_t> tracks_;
  std::unordered_map<std::string, const char*> names_;
  std::unordered_map<std::string, SpanRecord> open_;
};

Result<std::string> read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    const int failed = errno;
    return Error{.code = failed == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 .native = failed,
                 .operation = "open trace",
                 .context = path,
                 .hint = kTraceHint};
  }
  const std::streamoff size = file.tellg();
  if (size < 0) return Error{ErrorCode::kIo, errno, "read trace", path};
  if (static_cast<std::uint64_t>(size) > kTraceBytesMax) {
    return Error{ErrorCode::kBadFormat, 0, "read trace",
                 fmt::format("{}: {} bytes, the limit is {}", path, size, kTraceBytesMax)};
  }
  std::string content(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  if (size > 0 && !file.read(content.data(), size)) {
    return Error{ErrorCode::kIo, errno, "read trace", path};
  }
  return content;
}

}  // namespace

std::string Timeline::chrome_json() const {
  std::string out = R"({"displayTimeUnit":"ms","traceEvents":[
{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"mzcache"}})";
  const std::vector<std::string> names = tracks();
  for (std::size_t i = 0; i < names.size(); ++i) {
    fmt::format_to(std::back_inserter(out), R"(,
{{"ph":"M","name":"thread_name","pid":{0},"tid":{1},"args":{{"name":{2}}}}},
{{"ph":"M","name":"thread_sort_index","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
                   kProcess, i + 1, json_text(names[i]));
  }
  std::uint64_t id = 0;
  for (const SpanRecord& span : snapshot()) append_span(out, span, ++id);
  out += "\n]}\n";
  return out;
}

Result<void> Timeline::write_chrome_json(const std::string& path) const {
  const std::string json = chrome_json();
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) {
    return Error{.code = ErrorCode::kIo,
                 .native = errno,
                 .operation = "create trace",
                 .context = path,
                 .hint = "choose a file in a folder that is there and can be written to"};
  }
  file << json;
  file.close();
  if (!file) return Error{ErrorCode::kIo, errno, "write trace", path};
  return {};
}

Result<TraceFile> read_chrome_json(const std::string& path) {
  Result<std::string> content = read_text(path);
  if (!content) return std::move(content).error();
  Json json;
  try {
    json = Json::parse(*content);
  } catch (const Json::exception& error) {
    return not_a_trace(path, error.what());
  }
  // Both forms of the format: an object with traceEvents, or the bare array.
  const Json* events = &json;
  if (json.is_object()) {
    const auto it = json.find("traceEvents");
    events = it == json.end() ? nullptr : &*it;
  }
  if (events == nullptr || !events->is_array()) {
    return not_a_trace(path, "no array \"traceEvents\" (Chrome trace event format)");
  }
  TraceFile trace;
  Reader reader(trace);
  for (const Json& event : *events) reader.read(event);
  std::stable_sort(trace.spans.begin(), trace.spans.end(),
                   [](const SpanRecord& a, const SpanRecord& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
                   });
  return trace;
}

}  // namespace mzcache::actors
