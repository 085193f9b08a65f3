#include "commands/ttft/idle.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "actors/intervals.h"

namespace mzcache::tools {
namespace {

using actors::Intervals;
using actors::Nanoseconds;
using actors::normalized;
using actors::overlap;
using actors::SpanRecord;
using actors::Stage;
using actors::UnitId;
using actors::UnitKind;

// When a unit got to where, and what it is there for.
struct Arrival {
  Nanoseconds known{-1};  // to the reader
  Nanoseconds read{-1};
  Nanoseconds decoding{-1};
  Nanoseconds decoded{-1};
  [[nodiscard]] Nanoseconds last() const { return std::max(read, decoded); }
  // A decoder tells of its last chunk a moment before its handler ends.
  [[nodiscard]] Nanoseconds last_begun() const { return std::max(read, decoding); }
};

class Trace {
 public:
  Trace(const std::vector<SpanRecord>& spans, std::size_t depth) {
    for (const SpanRecord& span : spans) take(span);
    allocating_ = normalized(std::move(allocating_));
    decoding_ = normalized(std::move(decoding_));
    std::sort(stages_.begin(), stages_.end());
    follow_counters(spans, depth);
  }

  [[nodiscard]] Nanoseconds idle() const {
    Nanoseconds sum{0};
    for (const auto& [begin, end] : waits_) {
      sum += idle_in(begin, end);
    }
    return sum;
  }

 private:
  void take(const SpanRecord& span) {
    if (span.counter) return;
    const std::string_view name = span.name;
    switch (span.stage) {
      case Stage::kCompute:
        stages_.emplace_back(span.begin, span.unit);
        break;
      case Stage::kWait:
        waits_.emplace_back(span.begin, span.end);
        break;
      case Stage::kAllocate:
        allocating_.emplace_back(span.begin, span.end);
        break;
      case Stage::kDecode:
        decoding_.emplace_back(span.begin, span.end);
        if (span.has_unit) {
          arrivals_[span.unit].decoding = span.begin;
          arrivals_[span.unit].decoded = span.end;
        }
        break;
      case Stage::kRead:
        if (span.has_unit) arrivals_[span.unit].read = span.end;
        break;
      case Stage::kHandler:
        if (span.has_unit && name == "ReadUnit") arrivals_[span.unit].known = span.begin;
        break;
      default:
        break;
    }
  }

  // The reader's own counts, as they changed.
  void follow_counters(const std::vector<SpanRecord>& spans, std::size_t depth) {
    Nanoseconds since{0};
    std::uint64_t in_flight = 0;
    std::uint64_t left = 0;
    for (const SpanRecord& sample : spans) {
      if (!sample.counter) continue;
      if (in_flight >= depth) full_.emplace_back(since, sample.begin);
      if (in_flight < depth && left > 0) starved_.emplace_back(since, sample.begin);
      since = sample.begin;
      const std::string_view name = sample.name;
      if (name == actors::kReadsInFlight) in_flight = sample.bytes;
      if (name == actors::kReadsLeft) left = sample.bytes;
    }
    full_ = normalized(std::move(full_));
    starved_ = normalized(std::move(starved_));
  }

  // What the wait that ends with the device's next stage ended with: of its units the last to
  // arrive. Stages of a layer alternate: weights, then KV.
  [[nodiscard]] Arrival awaited(Nanoseconds end) const {
    const auto next = std::find_if(stages_.begin(), stages_.end(),
                                   [end](const auto& stage) { return stage.first >= end; });
    if (next == stages_.end()) return {};
    const UnitId unit = next->second;
    const auto before = std::count_if(stages_.begin(), next, [unit](const auto& stage) {
      return stage.second.kind == unit.kind && stage.second.layer == unit.layer;
    });
    if (unit.kind == UnitKind::kHead || before % 2 == 0) {
      const auto found = arrivals_.find(unit);
      return found == arrivals_.end() ? Arrival{} : found->second;
    }
    Arrival last;
    for (const auto& [arrived, arrival] : arrivals_) {
      if (arrived.kind != UnitKind::kKv || arrived.layer != unit.layer) continue;
      if (arrival.last_begun() <= end && arrival.last() > last.last()) last = arrival;
    }
    return last;
  }

  [[nodiscard]] Nanoseconds idle_in(Nanoseconds begin, Nanoseconds end) const {
    const Arrival unit = awaited(end);
    const auto clamp = [&](Nanoseconds time) { return std::clamp(time, begin, end); };
    const auto without = [](Nanoseconds from, Nanoseconds to, const Intervals& busy) {
      return to - from - overlap({{from, to}}, busy);
    };
    Nanoseconds idle{0};
    Nanoseconds at = begin;
    if (unit.read.count() >= 0) {
      Intervals busy = allocating_;
      busy.insert(busy.end(), full_.begin(), full_.end());
      const Nanoseconds known = clamp(unit.known);
      idle += without(at, known, normalized(std::move(busy)));
      at = std::max(known, clamp(unit.read));
      idle += overlap({{known, at}}, starved_);
    }
    if (unit.decoded > unit.read) {
      const Nanoseconds decoded = clamp(unit.decoded);
      idle += without(at, std::max(at, decoded), decoding_);
      at = std::max(at, decoded);
    }
    return idle + (end - at);
  }

  std::vector<std::pair<Nanoseconds, UnitId>> stages_;  // the device's, by their beginning
  Intervals waits_;
  Intervals allocating_;
  Intervals decoding_;
  Intervals full_;     // as many requests in flight as the device takes
  Intervals starved_;  // fewer, with reads left
  std::map<UnitId, Arrival> arrivals_;
};

}  // namespace

Nanoseconds idle_time(const std::vector<SpanRecord>& spans, std::size_t depth) {
  return Trace(spans, depth).idle();
}

}  // namespace mzcache::tools
