// The pipeline assembled: every actor spawned on a dispatcher (threads or simulation alike) and
// connected to its neighbours. The arrows of a restore and of an evict stand here and nowhere else.
#pragma once

#include <string>

#include "actors/allocator.h"
#include "actors/compressor.h"
#include "actors/decompressor.h"
#include "actors/prefill.h"
#include "actors/storage_reader.h"
#include "actors/storage_writer.h"
#include "engine/coordinator.h"

namespace mzcache::engine {

// The devices behind the ports. The reader and the writer wait on a device of their own each.
struct PipelineDevices {
  actors::SharedMemory& memory;
  actors::BlockDevice& reads;
  actors::BlockDevice& writes;
  actors::ComputeQueue& compute;
};
struct WorkerCounts {
  std::uint32_t allocators = 1;
  std::uint32_t decompressors = 1;
  std::uint32_t compressors = 1;
};

// Spawns and connects; the dispatcher is not started. Everything named outlives the dispatcher.
template <class Dispatcher>
actors::Ref<Coordinator> spawn_pipeline(Dispatcher& dispatcher, EngineState& state,
                                        const actors::KvShape& shape,
                                        const PipelineDevices& devices,
                                        const WorkerCounts& workers) {
  using actors::ActorKind;
  const actors::Clock& clock = dispatcher.clock();
  actors::Timeline& timeline = dispatcher.timeline();

  const auto coordinator = dispatcher.template spawn<Coordinator>(
      actors::ActorSpec{ActorKind::kCoordinator, "coordinator"}, state);
  const auto reader = dispatcher.template spawn<actors::StorageReader>(
      actors::ActorSpec{ActorKind::kStorageReader, "storage-reader"}, devices.reads, devices.memory,
      shape, clock, timeline, "reads in flight");
  const auto writer = dispatcher.template spawn<actors::StorageWriter>(
      actors::ActorSpec{ActorKind::kStorageWriter, "storage-writer"}, devices.writes,
      devices.memory, shape, clock, timeline, "writes in flight");
  const auto prefill = dispatcher.template spawn<actors::Prefill>(
      actors::ActorSpec{ActorKind::kPrefill, "prefill"}, devices.compute, clock, timeline);

  const auto ready = coordinator.template port<actors::UnitReady>();
  const auto failed = coordinator.template port<actors::UnitFailed>();
  const auto allocated = coordinator.template port<actors::UnitsAllocated>();
  PipelinePorts ports;
  std::vector<actors::Port<actors::DecodeChunk>> decode;
  for (std::uint32_t i = 0; i < workers.decompressors; ++i) {
    const auto decompressor = dispatcher.template spawn<actors::Decompressor>(
        actors::ActorSpec{ActorKind::kDecompressor, "decompress-" + std::to_string(i)},
        devices.memory, state.codecs, shape, clock);
    decompressor.actor->connect({allocated, ready, failed});
    decode.push_back(decompressor.template port<actors::DecodeChunk>());
    ports.decode_run.push_back(decompressor.template port<actors::AllocateUnits>());
  }

  for (std::uint32_t i = 0; i < workers.allocators; ++i) {
    const auto allocator = dispatcher.template spawn<actors::Allocator>(
        actors::ActorSpec{ActorKind::kAllocator, "allocator-" + std::to_string(i)}, devices.memory,
        clock);
    allocator.actor->connect({reader.template port<actors::ReadUnit>(), decode, allocated, ready,
                              coordinator.template port<actors::UnitsReleased>()});
    ports.allocate.push_back(allocator.template port<actors::AllocateUnits>());
    ports.release.push_back(allocator.template port<actors::ReleaseUnits>());
  }
  for (std::uint32_t i = 0; i < workers.compressors; ++i) {
    const auto compressor = dispatcher.template spawn<actors::Compressor>(
        actors::ActorSpec{ActorKind::kCompressor, "compress-" + std::to_string(i)}, devices.memory,
        state.codecs, shape, clock);
    compressor.actor->connect({coordinator.template port<actors::ChunkCompressed>()});
    ports.compress.push_back(compressor.template port<actors::CompressChunk>());
  }
  reader.actor->connect({decode, ready, failed, coordinator.template port<actors::RowsRead>()});
  writer.actor->connect({coordinator.template port<actors::ChunkWritten>()});
  prefill.actor->connect({coordinator.template port<actors::LayerComputed>(),
                          coordinator.template port<actors::TokenReady>(),
                          coordinator.template port<actors::ScratchReleased>()},
                         prefill.template port<actors::StageComputed>());
  ports.read_unit = reader.template port<actors::ReadUnit>();
  ports.decode = decode;
  ports.read_rows = reader.template port<actors::ReadRows>();
  ports.write = writer.template port<actors::WriteChunk>();
  ports.writes_over = writer.template port<actors::WritesOver>();
  ports.compute = prefill.template port<actors::ComputeTokens>();
  ports.layer_ready = prefill.template port<actors::LayerReady>();
  ports.stop_compute = prefill.template port<actors::StopCompute>();
  ports.release_scratch = prefill.template port<actors::ReleaseScratch>();
  coordinator.actor->connect(std::move(ports), coordinator.template port<ResumePaused>());
  return coordinator;
}

}  // namespace mzcache::engine
