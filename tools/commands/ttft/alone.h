// The stages of a restore one after another, each alone on the machine: what its bound is made of.
#pragma once

#include <cstdint>
#include <memory>

#include "actors/kv_shape.h"
#include "commands/ttft/missing.h"
#include "gpu/unit_memory_pages.h"
#include "io/storage.h"
#include "mzcache/config.h"

namespace mzcache::tools {

// Milliseconds of wall clock and of CPU time (all threads of the process).
struct StageCost {
  double ms = 0;
  double cpu_ms = 0;
};
struct AloneCosts {
  StageCost allocate;
  StageCost read;
  StageCost decode;  // checksums included
  std::uint64_t bytes_read = 0;
};

// Throws Exception. One thread.
class StagesAlone {
 public:
  StagesAlone(const Config& config, std::shared_ptr<io::StorageFiles> files,
              const actors::TierCodecs& codecs, const actors::KvShape& shape);

  // Memory of what is missing, run by run on fresh huge pages, in this thread. It is held from here
  // on: what read() and decode() fill, and warm memory for whoever comes after let_go().
  [[nodiscard]] StageCost allocate(const Missing& missing);
  // The very ranges, neighbours in the file joined, at the configured block and depth.
  [[nodiscard]] StageCost read(const Missing& missing, std::uint64_t& bytes_read);
  // What read() brought is verified, encoded chunks are decoded, in this thread.
  [[nodiscard]] StageCost decode(const Missing& missing);
  void let_go() { memory_ = {}; }

 private:
  const bool huge_;
  std::unique_ptr<actors::BlockDevice> device_;
  const actors::TierCodecs codecs_;
  const actors::KvShape& shape_;
  gpu::PageReservation memory_;
  std::vector<std::uint64_t> places_;  // of each read in memory_
  std::uint64_t behind_reads_ = 0;     // where decoded chunks go
  std::uint64_t verified_ = 0;         // keeps checksums from being left out
};

}  // namespace mzcache::tools
