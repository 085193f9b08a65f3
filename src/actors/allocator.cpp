#include "actors/allocator.h"

namespace mzcache::actors {

void Allocator::on(AllocateUnits&& message) noexcept {
  const Nanoseconds begin = clock_.now();
  Result<void> populated = memory_.populate(message.units);
  UnitsAllocated report;
  report.units = message.units;
  report.busy = clock_.now() - begin;
  if (!populated) {
    report.error = populated.error();
    ports_.allocated.send(std::move(report));
    return;
  }
  ports_.allocated.send(std::move(report));
  for (std::size_t i = 0; i < message.units.size(); ++i) {
    forward(message.units[i], std::move(message.origins[i]));
  }
}

void Allocator::forward(UnitId unit, Origin&& origin) noexcept {
  if (std::holds_alternative<HeldOrigin>(origin)) return;
  if (std::holds_alternative<FreshOrigin>(origin)) {
    memory_.end_host_access(unit);
    UnitReady ready;
    ready.unit = unit;
    ports_.ready.send(ready);
    return;
  }
  if (auto* encoded = std::get_if<MemoryOrigin>(&origin)) {
    ports_.decompressors[next_decompressor_++ % ports_.decompressors.size()].send(
        decode_from_memory(unit, *encoded));
    return;
  }
  ports_.reader.send(ReadUnit{unit, std::move(origin)});
}

void Allocator::on(ReleaseUnits&& message) noexcept {
  memory_.release(message.units);
  ports_.released.send(UnitsReleased{std::move(message.units)});
}

}  // namespace mzcache::actors
