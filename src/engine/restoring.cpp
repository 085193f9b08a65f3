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
      if (record.empty == false && !record.has_form()) lost = unit.context;
    }
    missing.push_back(unit);
  });
  if (!lost) waiting_.insert(missing.begin(), missing.end());
  return lost;
}

void Restoring::limit(std::uint64_t bytes) {
  std::uint64_t total = 0;
  auto unit = waiting_.begin();
  while (unit != waiting_.end() && total < bytes) total += state_.residency.unit_bytes(*unit++);
  waiting_.erase(unit, waiting_.end());
}

void Restoring::pump() {
  while (!waiting_.empty()) {
    std::vector<UnitId> run;
    std::uint64_t bytes = 0;
    for (const UnitId& unit : waiting_) {
      const bool neighbour =
          run.empty() || (unit.kind == UnitKind::kKv && run.back().kind == UnitKind::kKv &&
                          unit.layer == run.back().layer && unit.context == run.back().context &&
                          unit.chunk == run.back().chunk + 1);
      const std::uint64_t size = state_.residency.unit_bytes(unit);
      if (!neighbour || (!run.empty() && bytes + size > state_.options.restore_run_bytes)) break;
      run.push_back(unit);
      bytes += size;
    }
    if (on_way_ > 0 && !state_.options.allocate_first &&
        bytes_on_way_ + bytes > state_.options.restore_bytes_in_flight) {
      return;
    }
    for (const UnitId& unit : run) waiting_.erase(unit);
    ask(std::move(run));
  }
}

void Restoring::ask(std::vector<UnitId> run) {
  if (!anything_) first_ = last_ = state_.clock.now();
  anything_ = true;
  actors::AllocateUnits message;
  for (const UnitId unit : run) {
    std::optional<actors::Origin> origin = state_.residency.origin(unit);
    state_.residency[unit].moving = true;
    bytes_on_way_ += state_.residency.unit_bytes(unit);
    ++on_way_;
    actors::Origin from = origin ? std::move(*origin) : actors::Origin(actors::FreshOrigin{});
    if (state_.options.allocate_first) {
      held_.emplace_back(unit, std::exchange(from, actors::HeldOrigin{}));
    }
    message.origins.push_back(std::move(from));
  }
  message.units = std::move(run);
  const std::size_t allocator = state_.allocator_of(message.units.front());
  state_.ports.allocate[allocator].send(std::move(message));
}

void Restoring::arrived(UnitId unit) {
  bytes_on_way_ -= state_.residency.unit_bytes(unit);
  --on_way_;
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
  std::size_t next_decompressor = 0;
  std::vector<UnitId> fresh;
  for (auto& [unit, origin] : held_) {
    if (auto* encoded = std::get_if<actors::MemoryOrigin>(&origin)) {
      actors::DecodeChunk decode;
      decode.unit = unit;
      decode.encoded = encoded->encoded;
      decode.checksum = encoded->checksum;
      decode.token_count = encoded->token_count;
      state_.ports.decode[next_decompressor++ % state_.ports.decode.size()].send(std::move(decode));
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
  report_.decode_ms += to_ms(message.decode);
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
