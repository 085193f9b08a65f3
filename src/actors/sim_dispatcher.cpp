#include "actors/sim_dispatcher.h"

#include <algorithm>

namespace mzcache::actors {

SimDispatcher::SimDispatcher(std::uint64_t seed, Timeline& timeline)
    : timeline_(timeline), clock_(*this), random_(seed) {}

SimDispatcher::~SimDispatcher() {
  heap_.clear();
  actions_.clear();
  while (!cells_.empty()) cells_.pop_back();
}

void SimDispatcher::start() {
  if (started_) return;
  started_ = true;
  for (auto& cell : cells_) {
    WaitSource* const source = cell->wait_source();
    if (source == nullptr) continue;
    cell->has_device_ = true;
    source->set_notify([this, target = cell.get()] { schedule_device(*target); });
  }
}

void SimDispatcher::stop() {
  if (!started_) return;
  (void)run_until_quiet(kStopEventsMax);
}

void SimDispatcher::set_latency(Nanoseconds shortest, Nanoseconds longest) {
  latency_min_ = shortest;
  latency_max_ = std::max(shortest, longest);
}

void SimDispatcher::charge(Nanoseconds duration) noexcept {
  if (current_ != nullptr && duration.count() > 0) charged_ += duration;
}

bool SimDispatcher::later(const Event& a, const Event& b) noexcept {
  if (a.time != b.time) return a.time > b.time;
  if (a.tie != b.tie) return a.tie > b.tie;
  return a.sequence > b.sequence;
}

void SimDispatcher::push(Nanoseconds time, std::uint64_t tie, SimCell* cell, std::uint32_t slot) {
  heap_.push_back({time, tie, sequence_++, cell, slot});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void SimDispatcher::at(Nanoseconds time, std::function<void()> action) {
  std::uint32_t slot = static_cast<std::uint32_t>(actions_.size());
  if (free_actions_.empty()) {
    actions_.push_back(std::move(action));
  } else {
    slot = free_actions_.back();
    free_actions_.pop_back();
    actions_[slot] = std::move(action);
  }
  push(std::max(time, now()), random_(), nullptr, slot);
}

void SimDispatcher::schedule_message(SimCell& cell, std::uint32_t slot) {
  const std::size_t sender = current_ == nullptr ? 0 : current_->index_ + 1;
  if (cell.arrivals_.size() <= sender) cell.arrivals_.resize(sender + 1);
  const auto spread = static_cast<std::uint64_t>((latency_max_ - latency_min_).count()) + 1;
  const Nanoseconds travel =
      latency_min_ + Nanoseconds(static_cast<std::int64_t>(random_() % spread));
  SimCell::Arrival arrival{now() + travel, random_()};
  // First in, first out per sender: not before the last one, and on a tie in sequence.
  SimCell::Arrival& last = cell.arrivals_[sender];
  if (arrival.time <= last.time) arrival = last;
  last = arrival;
  push(arrival.time, arrival.tie, &cell, slot);
}

void SimDispatcher::schedule_device(SimCell& cell) {
  if (cell.device_due_) return;
  cell.device_due_ = true;
  push(now(), random_(), &cell, kDeviceMark);
}

bool SimDispatcher::step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = event.time;
  if (event.cell == nullptr) {
    run_action(event.slot);
  } else if (event.slot == kResumeMark) {
    SimCell& cell = *event.cell;
    const std::uint32_t slot = cell.waiting_.front();
    cell.waiting_.pop_front();
    run_in(cell, slot);
    cell.resume_due_ = !cell.waiting_.empty();
    if (cell.resume_due_) push(cell.busy_until_, random_(), &cell, kResumeMark);
  } else {
    deliver(*event.cell, event.slot);
  }
  return true;
}

bool SimDispatcher::run_until_quiet(std::uint64_t events_max) {
  for (std::uint64_t i = 0; i < events_max; ++i) {
    if (!step()) return true;
  }
  return heap_.empty();
}

void SimDispatcher::run_action(std::uint32_t slot) {
  mix(static_cast<std::uint64_t>(now_.count()));
  const std::function<void()> action = std::move(actions_[slot]);
  actions_[slot] = nullptr;
  free_actions_.push_back(slot);
  action();
}

void SimDispatcher::deliver(SimCell& cell, std::uint32_t slot) {
  if (!cell.resume_due_ && cell.busy_until_ <= now_) return run_in(cell, slot);
  cell.waiting_.push_back(slot);
  if (cell.resume_due_) return;
  cell.resume_due_ = true;
  push(cell.busy_until_, random_(), &cell, kResumeMark);
}

void SimDispatcher::run_in(SimCell& cell, std::uint32_t slot) {
  current_ = &cell;
  charged_ = Nanoseconds{0};
  if (slot == kDeviceMark) {
    cell.device_due_ = false;
    cell.run_device();
  } else {
    cell.run_message(slot);
  }
  cell.busy_until_ = now_ + charged_;
  // As with threads: an actor looks at its device after the messages it handled.
  if (slot != kDeviceMark && cell.has_device_) schedule_device(cell);
  current_ = nullptr;
  charged_ = Nanoseconds{0};
}

void SimDispatcher::begin_span(const SimCell& cell, const SpanRecord& span) noexcept {
  mix(static_cast<std::uint64_t>(now_.count()));
  mix(cell.index_);
  for (const char* c = span.name; *c != '\0'; ++c) mix(static_cast<std::uint64_t>(*c));
  if (span.has_unit) mix(std::hash<UnitId>{}(span.unit));
}

void SimDispatcher::end_span(const SimCell& cell, SpanRecord& span) noexcept {
  if (!timeline_.enabled()) return;
  span.track = cell.track();
  span.begin = now_;
  span.end = now();
  timeline_.record(span);
}

void SimDispatcher::mix(std::uint64_t value) noexcept {
  trace_hash_ = (trace_hash_ ^ value) * 0x9E3779B97F4A7C15ULL;
  trace_hash_ ^= trace_hash_ >> 32;
}

}  // namespace mzcache::actors
