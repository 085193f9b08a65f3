// The timeline: every handler run and device wait as a span, recorded lock-free into per-thread
// buffers and exported as Chrome/Perfetto trace JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/ports.h"

namespace mzcache::actors {

// What a span's time is counted as by `trace summary`.
enum class Stage : std::uint8_t {
  kHandler,   // an actor's handler, no stage work
  kAllocate,  // populating shared memory
  kRead,      // storage read in flight
  kWrite,     // storage write in flight
  kDecode,
  kEncode,
  kRelease,
  kCompute,  // the device works on a layer
  kWait,     // the device has nothing to do although a slice is under way
  kCount,
};
[[nodiscard]] std::string_view stage_name(Stage stage) noexcept;

struct SpanRecord {
  std::uint32_t track = 0;
  Stage stage = Stage::kHandler;
  bool overlapping = false;  // may overlap others of its track (requests in flight): async events
  std::int32_t cpu = -1;     // the CPU it ran on (ended on), -1 unknown
  const char* name = "";     // static string: the message or operation
  Nanoseconds begin{0};
  Nanoseconds end{0};
  UnitId unit;
  bool has_unit = false;
  std::uint64_t bytes = 0;
  bool counter = false;  // no span: from `begin` on, what `name` counts is `bytes`
};

// What the storage reader counts: requests the device has, and units with something left to ask it.
inline constexpr const char* kReadsInFlight = "reads in flight";
inline constexpr const char* kReadsLeft = "reads left";

class Timeline {
 public:
  Timeline();
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void enable(bool on) noexcept;
  [[nodiscard]] bool enabled() const noexcept;
  // A row of the picture. Thread-safe.
  [[nodiscard]] std::uint32_t add_track(std::string name);
  // Lock-free, from any thread; bounded per thread (oldest kept; `dropped` counts the rest).
  void record(const SpanRecord& span) noexcept;
  // Everything recorded so far, by begin time.
  [[nodiscard]] std::vector<SpanRecord> snapshot() const;
  [[nodiscard]] std::vector<std::string> tracks() const;
  [[nodiscard]] std::uint64_t dropped() const noexcept;
  void clear();
  // Chrome trace event JSON. Errors name the file.
  [[nodiscard]] Result<void> write_chrome_json(const std::string& path) const;
  [[nodiscard]] std::string chrome_json() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Busy time per stage and how much of it overlapped with the others.
struct StageSummary {
  Stage stage = Stage::kHandler;
  Nanoseconds busy{0};          // union of the stage's spans
  Nanoseconds with_compute{0};  // of it, while the device computed
  Nanoseconds with_others{0};   // of it, while any other stage of work was (no kHandler, kWait)
  std::uint64_t spans = 0;
  std::uint64_t bytes = 0;
};
struct TraceSummary {
  Nanoseconds begin{0};
  Nanoseconds end{0};
  std::vector<StageSummary> stages;  // those that occur
};
[[nodiscard]] TraceSummary summarize(const std::vector<SpanRecord>& spans);

// A trace read back from its JSON file.
struct TraceFile {
  std::vector<std::string> tracks;
  std::vector<SpanRecord> spans;  // names point into `names`
  std::vector<std::unique_ptr<std::string>> names;
};
[[nodiscard]] Result<TraceFile> read_chrome_json(const std::string& path);
// A picture: one row per track, time from left to right, one colour per stage, with a legend.
[[nodiscard]] std::string render_svg(const TraceFile& trace);

}  // namespace mzcache::actors
