// What a unit costs to restore, in whole picoseconds: sums of integers do not depend on their
// order, so a plan made in two parts decides as one made at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/planner.h"

namespace mzcache::engine {

using Picoseconds = std::int64_t;

// Longest time one unit may count with: 100 s. Keeps the sum over 90,000 units in range.
inline constexpr Picoseconds kUnitTimeMax = 100'000'000'000'000;

[[nodiscard]] inline Picoseconds to_picoseconds(double seconds) {
  if (!(seconds > 0)) return 0;
  return static_cast<Picoseconds>(
      std::min(seconds * 1e12 + 0.5, static_cast<double>(kUnitTimeMax)));
}

// A path that moves nothing (a rate of 0, negative or NaN) takes kUnitTimeMax per unit.
[[nodiscard]] inline Picoseconds transfer_time(std::uint64_t bytes, double bytes_per_s) {
  if (bytes == 0) return 0;
  if (!(bytes_per_s > 0)) return kUnitTimeMax;
  return to_picoseconds(static_cast<double>(bytes) / bytes_per_s);
}

struct UnitTimes {
  Picoseconds read = 0;             // from storage, as it is stored out of a shared buffer
  Picoseconds read_compressed = 0;  // from storage, as it was in the in-memory swap
  Picoseconds decode = 0;
  Picoseconds decode_priced = 0;  // with the price of the processor's time (cpu_price)
  // Of what was read, where the codec for storage encoded it; else 0.
  Picoseconds decode_stored = 0;
  Picoseconds decode_stored_priced = 0;
};

[[nodiscard]] inline UnitTimes unit_times(const PlannedUnit& unit, const RestoreProfile& profile,
                                          const PlannerOptions& options) {
  UnitTimes times;
  if (unit.unit.kind != actors::UnitKind::kKv) {
    times.read = transfer_time(unit.bytes, profile.model_read_bytes_per_s);
    return times;
  }
  times.read = transfer_time(unit.bytes_when_stored(), profile.swap_read_bytes_per_s);
  times.read_compressed = transfer_time(unit.compressed_bytes, profile.swap_read_bytes_per_s);
  const auto priced = [&](Picoseconds decode, double cpu_s_per_byte) {
    const double cpu_s =
        cpu_s_per_byte * static_cast<double>(unit.bytes) / std::max(options.cores, 1U);
    return std::min(kUnitTimeMax, decode + to_picoseconds(options.cpu_price * cpu_s));
  };
  times.decode = transfer_time(unit.bytes, profile.decode_bytes_per_s);
  times.decode_priced = priced(times.decode, profile.decode_cpu_s_per_byte);
  if (unit.stored_bytes == 0) return times;
  const bool own = profile.storage_decode_bytes_per_s > 0;
  times.decode_stored =
      own ? transfer_time(unit.bytes, profile.storage_decode_bytes_per_s) : times.decode;
  times.decode_stored_priced =
      own ? priced(times.decode_stored, profile.storage_decode_cpu_s_per_byte)
          : times.decode_priced;
  return times;
}

// Where units lie, as far as restoring is concerned. kStorage: as they were stored out of a shared
// buffer, so that an encoded one owes decoding to the memory path's decoders too.
enum class RestoreForm : std::uint8_t { kNothing, kMemory, kStorage, kStorageCompressed };

// What the two paths owe together; `memory_unpriced` is what people are told.
struct PathTimes {
  Picoseconds memory = 0;
  Picoseconds memory_unpriced = 0;
  Picoseconds storage = 0;

  void add(const UnitTimes& unit, RestoreForm form, int sign = 1) {
    if (form == RestoreForm::kMemory || form == RestoreForm::kStorageCompressed) {
      memory += sign * unit.decode_priced;
      memory_unpriced += sign * unit.decode;
    }
    if (form == RestoreForm::kStorage) {
      storage += sign * unit.read;
      memory += sign * unit.decode_stored_priced;
      memory_unpriced += sign * unit.decode_stored;
    }
    if (form == RestoreForm::kStorageCompressed) storage += sign * unit.read_compressed;
  }
  // Positive where storage owes more.
  [[nodiscard]] Picoseconds difference() const { return storage - memory; }
  [[nodiscard]] Picoseconds longer() const { return std::max(storage, memory); }
};

}  // namespace mzcache::engine
