#include "engine/restoring.h"

#include <algorithm>
#include <tuple>
#include <variant>

#include "engine/milliseconds.h"

namespace mzcache::engine {
namespace {

using actors::Nanoseconds;
using actors::UnitId;
using actors::UnitKind;

}  // namespace

bool Restoring::ForwardOrder::operator()(const UnitId& a, const UnitId& b) const noexcept {
  const auto key = [](const UnitId& unit) {
    return std::tuple(unit.layer, unit.kind == UnitKind::kKv ? 1 : 0, unit.context, unit.chunk);
  };
  return key(a) < key(b);
}

void Restoring::begin_report() {
  report_ = {};
  computed_.clear();
  anything_ = false;
  first_ = last_ = state_.clock.now();
}

std::optional<std::uint32_t> Restoring::want(std::optional<std::uint32_t> context) {
  std::optional<std::uint32_t> lost;
  std::vector<UnitId> missing;
  state_.residency.for_each([&](UnitId unit, const UnitRecord& record) {
    if (record.resident || record.moving) return;
    if (unit.kind == UnitKind::kKv) {
      if (context && unit.context != *context) return;
      const Context& chunk_of = state_.cache.contexts().at(unit.context);
      const std::uint32_t next = context ? chunk_of.kv_tokens : chunk_of.next_position();
      if (!state_.residency.seen(unit, next)) return;
      // A pass reads it where it lies. A Restore brings it back all the same.
      if (context && state_.residency.read_in_place(unit, record, next)) return;
      if (record.empty == false && !record.has_form()) lost = unit.context;
    }
    missing.push_back(unit);
  });
  if (!lost) {
    for (const UnitId unit : missing) path_of(unit).waiting.insert(unit);
  }
  return lost;
}

Restoring::Path& Restoring::path_of(UnitId unit) noexcept {
  return paths_[unit.kind == UnitKind::kKv && state_.residency[unit].compressed ? 1 : 0];
}

void Restoring::limit(std::uint64_t bytes) {
  Units wanted = storage().waiting;
  wanted.insert(memory().waiting.begin(), memory().waiting.end());
  stop();
  std::uint64_t total = 0;
  for (const UnitId& unit : wanted) {
    if (total >= bytes) return;
    total += state_.residency.unit_bytes(unit);
    path_of(unit).waiting.insert(unit);
  }
}

void Restoring::pump() {
  for (Path& path : paths_) pump(path);
}

// The window may be overshot by one run: a large unit, such as the head, is given memory while what
// comes before it is still being read.
void Restoring::pump(Path& path) {
  while (!path.waiting.empty() && (state_.options.allocate_first ||
                                   path.bytes_on_way < state_.options.restore_bytes_in_flight)) {
    ask(path, next_run(path.waiting));
  }
}

// The first unit and the chunks that lie beside it.
std::vector<UnitId> Restoring::next_run(const Units& waiting) const {
  std::vector<UnitId> run;
  std::uint64_t bytes = 0;
  for (const UnitId& unit : waiting) {
    const bool neighbour =
        run.empty() || (unit.kind == UnitKind::kKv && run.back().kind == UnitKind::kKv &&
                        unit.layer == run.back().layer && unit.context == run.back().context &&
                        unit.chunk == run.back().chunk + 1);
    bytes += state_.residency.unit_bytes(unit);
    if (!neighbour || (!run.empty() && bytes > state_.options.restore_run_bytes)) break;
    run.push_back(unit);
  }
  return run;
}

void Restoring::ask(Path& path, std::vector<UnitId> run) {
  if (!anything_) first_ = last_ = state_.clock.now();
  anything_ = true;
  actors::AllocateUnits message;
  for (const UnitId unit : run) {
    path.waiting.erase(unit);
    path.on_way.insert(unit);
    path.bytes_on_way += state_.residency.unit_bytes(unit);
    state_.residency[unit].moving = true;
    std::optional<actors::Origin> origin = state_.residency.origin(unit);
    actors::Origin from = origin ? std::move(*origin) : actors::Origin(actors::FreshOrigin{});
    if (state_.options.allocate_first) {
      held_.emplace_back(unit, std::exchange(from, actors::HeldOrigin{}));
    }
    message.origins.push_back(std::move(from));
  }
  message.units = std::move(run);
  send(std::move(message));
}

// A decompressor gives memory to what it decodes, but a release still on its way to an allocator
// must not overtake it.
void Restoring::send(actors::AllocateUnits message) {
  const bool decoded = std::all_of(
      message.origins.begin(), message.origins.end(),
      [](const auto& origin) { return std::holds_alternative<actors::MemoryOrigin>(origin); });
  if (decoded && state_.releases_pending == 0) {
    state_.ports.decode_run[next_decompressor_++ % state_.ports.decode_run.size()].send(
        std::move(message));
    return;
  }
  const std::size_t allocator = state_.allocator_of(message.units.front());
  state_.ports.allocate[allocator].send(std::move(message));
}

void Restoring::arrived(UnitId unit) {
  Path& path = paths_[memory().on_way.contains(unit) ? 1 : 0];
  path.on_way.erase(unit);
  path.bytes_on_way -= state_.residency.unit_bytes(unit);
  last_ = state_.clock.now();
}

void Restoring::on(const actors::UnitsAllocated& message) {
  report_.allocate_ms += to_ms(message.busy);
  if (message.error.code != ErrorCode::kOk) {
    for (const UnitId unit : message.units) {
      std::erase_if(held_, [&](const auto& held) { return held.first == unit; });
      state_.residency[unit].moving = false;
      arrived(unit);
    }
  } else {
    for (const UnitId unit : message.units) {
      report_.bytes_allocated += state_.residency.unit_bytes(unit);
    }
    if (state_.options.allocate_first) {
      held_allocated_ += static_cast<std::uint32_t>(message.units.size());
    }
  }
  if (!held_.empty() && held_allocated_ == held_.size()) fill_held();
}

// All memory is there: now the contents, in forward order.
void Restoring::fill_held() {
  std::vector<UnitId> fresh;
  for (auto& [unit, origin] : held_) {
    if (auto* encoded = std::get_if<actors::MemoryOrigin>(&origin)) {
      state_.ports.decode[next_decompressor_++ % state_.ports.decode.size()].send(
          actors::decode_from_memory(unit, *encoded));
    } else if (std::holds_alternative<actors::FreshOrigin>(origin)) {
      fresh.push_back(unit);
    } else {
      state_.ports.read_unit.send(actors::ReadUnit{unit, std::move(origin)});
    }
  }
  held_.clear();
  held_allocated_ = 0;
  for (const UnitId unit : fresh) {
    actors::UnitReady ready;
    ready.unit = unit;
    on(ready);
  }
}

void Restoring::on(const actors::UnitReady& message) {
  UnitRecord& record = state_.residency[message.unit];
  const bool read_encoded = !record.compressed && record.stored && record.stored->encoded &&
                            record.stored->tier == actors::CodecTier::kStorage;
  record.moving = false;
  state_.residency.set_resident(message.unit, true);
  // A stored form stays: evicting the chunk again is then free. An encoded one takes memory, so it
  // stays only within its budget.
  if (record.compressed && state_.residency.kept_bytes() > state_.options.keep_compressed) {
    state_.residency.drop_compressed(record);
  }
  report_.bytes_read += message.bytes_read;
  report_.bytes_decoded += message.bytes_decoded;
  report_.read_ms += to_ms(message.read);
  if (message.unit.kind == UnitKind::kKv) {
    report_.swap_bytes_read += message.bytes_read;
    report_.swap_read_ms += to_ms(message.read);
  }
  report_.decode_ms += to_ms(message.decode);
  if (read_encoded) {
    report_.storage_bytes_decoded += message.bytes_decoded;
    report_.storage_decode_ms += to_ms(message.decode);
  }
  arrived(message.unit);
}

void Restoring::on(const actors::UnitFailed& message) {
  arrived(message.unit);
  state_.release({message.unit});  // its memory is there, its content is not
}

void Restoring::computed(Nanoseconds begin, Nanoseconds end) {
  if (anything_) computed_.emplace_back(begin, end);
}

RestoreReport Restoring::report() const {
  RestoreReport report = report_;
  if (!anything_) return report;
  report.ms = to_ms(last_ - first_);
  Nanoseconds overlap{0};
  Nanoseconds covered = first_;
  for (const auto& [begin, end] : computed_) {  // in device order, so ascending
    const Nanoseconds from = std::max(begin, covered);
    const Nanoseconds to = std::min(end, last_);
    if (to > from) {
      overlap += to - from;
      covered = to;
    }
  }
  if (last_ > first_) {
    report.overlap_percent = 100.0 * static_cast<double>(overlap.count()) /
                             static_cast<double>((last_ - first_).count());
  }
  return report;
}

}  // namespace mzcache::engine
