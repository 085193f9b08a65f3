#include "sim/sim_world.h"

#include <algorithm>
#include <map>

#include "actors/checksum.h"
#include "engine/planner.h"
#include "sim/sim_codec.h"
#include "sim/sim_compute.h"
#include "sim/sim_memory.h"
#include "sim/sim_model.h"
#include "sim/sim_storage.h"

namespace mzcache::sim {
namespace {

using actors::FileRange;
using actors::kBlockAlignment;

constexpr std::uint64_t kRowBytes = 32;           // of the input embedding
constexpr std::uint64_t kEmbeddingOffset = 1000;  // rows need no alignment
// The head ends with the file, in the middle of a block.
constexpr std::uint64_t kTailMissing = 100;

std::shared_ptr<const std::vector<std::byte>> model_file(std::uint64_t bytes) {
  static thread_local std::map<std::uint64_t, std::shared_ptr<const std::vector<std::byte>>> files;
  auto& file = files[bytes];
  if (file == nullptr) {
    auto content = std::make_shared<std::vector<std::byte>>(bytes);
    for (std::uint64_t i = 0; i < bytes; ++i) (*content)[i] = std::byte{file_byte(i)};
    file = std::move(content);
  }
  return file;
}

// A unit's buffer as it must look: its ranges out of the file, zero elsewhere.
std::uint64_t unit_digest(const std::vector<std::byte>& file, const std::vector<FileRange>& ranges,
                          std::uint64_t unit_bytes) {
  std::vector<std::byte> buffer(unit_bytes);
  for (const FileRange& range : ranges) {
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(range.file_offset), range.bytes,
                buffer.begin() + static_cast<std::ptrdiff_t>(range.buffer_offset));
  }
  return actors::checksum(buffer);
}

engine::RestoreProfile planned_with(const MachineOptions& machine) {
  if (machine.plan_profile) return *machine.plan_profile;
  engine::RestoreProfile profile;
  profile.model_read_bytes_per_s = profile.swap_read_bytes_per_s = machine.read_bytes_per_s;
  if (machine.swap_read_bytes_per_s > 0) {
    profile.swap_read_bytes_per_s = machine.swap_read_bytes_per_s;
  }
  profile.decode_cpu_s_per_byte = machine.decode_cpu_s_per_byte;
  profile.decode_bytes_per_s = machine.decode_bytes_per_s;
  if (machine.storage_codec) {
    profile.storage_decode_bytes_per_s = machine.storage_decode_bytes_per_s;
    profile.storage_decode_cpu_s_per_byte = machine.decode_cpu_s_per_byte *
                                            machine.decode_bytes_per_s /
                                            machine.storage_decode_bytes_per_s;
  }
  return profile;
}

}  // namespace

actors::ModelDescription describe(const ModelOptions& options) {
  actors::ModelDescription model;
  model.architecture = "simulated";
  model.layers = options.layers;
  model.heads = model.kv_heads = 1;
  model.head_dim = static_cast<std::uint32_t>(kBlockAlignment / 4 / options.chunk_tokens);
  model.chunk_tokens = options.chunk_tokens;
  model.vocabulary = options.vocabulary;
  model.embedding = {actors::TensorType::kF32, kEmbeddingOffset, kRowBytes, options.vocabulary,
                     1.0F};
  std::uint64_t at =
      actors::align_up(kEmbeddingOffset + options.vocabulary * kRowBytes, kBlockAlignment);
  for (std::uint32_t layer = 0; layer < options.layers; ++layer) {
    // Two ranges with a gap between them, as layers whose tensors are not neighbours have.
    actors::LayerDescription description;
    const std::uint64_t first = kBlockAlignment;
    const std::uint64_t rest = (options.layer_blocks - 1) * kBlockAlignment;
    description.ranges.push_back({actors::FileId::kModel, at, 0, first});
    at += first + kBlockAlignment;
    if (rest > 0) description.ranges.push_back({actors::FileId::kModel, at, first, rest});
    at += rest;
    description.unit_bytes = description.tensor_bytes = first + rest;
    description.window = layer % 2 == 0 ? options.window : 0;
    model.layer.push_back(std::move(description));
  }
  model.head.unit_bytes = options.head_blocks * kBlockAlignment;
  model.head.tensor_bytes = model.head.unit_bytes - kTailMissing;
  model.head.ranges = {{actors::FileId::kModel, at, 0, model.head.tensor_bytes}};
  model.file_bytes = at + model.head.tensor_bytes;
  return model;
}

World::World(std::uint64_t seed, const ModelOptions& model, const MachineOptions& machine,
             const engine::EngineOptions& engine_options, const engine::WorkerCounts& workers,
             engine::PlannerOptions policy)
    : World(seed, describe(model), machine, engine_options, workers, [&] {
        policy.memory_closed = engine_options.memory_closed;
        return engine::make_planner(policy);
      }()) {}

World::World(std::uint64_t seed, actors::ModelDescription model, const MachineOptions& machine,
             const engine::EngineOptions& engine_options, const engine::WorkerCounts& workers,
             std::unique_ptr<engine::EvictionPlanner> planner)
    : dispatcher_(seed, timeline_),
      model_(std::move(model)),
      machine_(machine),
      planner_(std::move(planner)) {
  shape_ = actors::kv_shape(model_);
  auto disk = std::make_shared<SimDisk>();
  disk->model_bytes = model_.file_bytes;
  if (machine_.content) disk->model_file = model_file(model_.file_bytes);
  memory_ = std::make_unique<SimMemory>(dispatcher_, model_, machine_, cores_);
  codec_ = std::make_unique<SimCodec>(dispatcher_, machine_, cores_, actors::CodecTier::kMemory);
  storage_codec_ =
      std::make_unique<SimCodec>(dispatcher_, machine_, cores_, actors::CodecTier::kStorage);
  reads_ = std::make_unique<SimStorage>(dispatcher_, disk, machine_, cores_);
  writes_ = std::make_unique<SimStorage>(dispatcher_, disk, machine_, cores_);
  compute_ = std::make_unique<SimCompute>(dispatcher_, *memory_, model_, machine_, cores_);
  actors::TierCodecs codecs{codec_.get(), nullptr};
  if (machine_.storage_codec) codecs.storage = storage_codec_.get();
  state_ = std::make_unique<engine::EngineState>(model_, *memory_, codecs, *planner_,
                                                 planned_with(machine_), dispatcher_.clock(),
                                                 engine_options);
  state_->timer = &timer_;
  // Without the swap's addresses nothing can start; this is set-up, not part of the run.
  static_cast<void>(state_->swap.reserve(engine_options.swap_range_bytes));
  coordinator_ = engine::spawn_pipeline(dispatcher_, *state_, shape_,
                                        {*memory_, *reads_, *writes_, *compute_}, workers);
  dispatcher_.start();
}

World::~World() = default;

void World::plant_context(std::uint32_t id, std::uint32_t tokens) {
  engine::Context& context = *state_->cache.find(id);
  context.tokens.assign(tokens, 0);
  context.kv_tokens = tokens;
  context.chunks = (tokens + model_.chunk_tokens - 1) / model_.chunk_tokens;
  state_->residency.set_chunks(id, context.chunks);
  std::vector<actors::UnitId> missing;
  state_->residency.for_each([&](actors::UnitId unit, const engine::UnitRecord& record) {
    if (!record.resident) missing.push_back(unit);
  });
  for (const actors::UnitId unit : missing) {
    if (!memory_->populate(std::span(&unit, 1))) continue;  // no faults while planting
    engine::UnitRecord& record = state_->residency[unit];
    record.empty = false;
    state_->residency.set_resident(unit, true);
  }
}

Token World::expected(std::span<const Token> tokens) const {
  const auto& file = *model_file(model_.file_bytes);
  if (layer_digests_.empty()) {
    for (const auto& layer : model_.layer) {
      layer_digests_.push_back(unit_digest(file, layer.ranges, layer.unit_bytes));
    }
    head_digest_ = unit_digest(file, model_.head.ranges, model_.head.unit_bytes);
  }
  std::vector<std::vector<std::uint64_t>> seeds(model_.layers);  // of the rows of a layer
  std::vector<std::uint64_t> digests(model_.layers, 0);          // of all of them
  std::uint64_t state = 0;
  for (std::size_t position = 0; position < tokens.size(); ++position) {
    const auto row = std::span(file).subspan(
        kEmbeddingOffset + static_cast<std::uint64_t>(tokens[position]) * kRowBytes, kRowBytes);
    state = mix(actors::checksum(row), position);
    for (std::uint32_t layer = 0; layer < model_.layers; ++layer) {
      const std::uint64_t seed = kv_seed(state, layer_digests_[layer]);
      seeds[layer].push_back(seed);
      digests[layer] = fold_row(digests[layer], seed);
      std::uint64_t digest = digests[layer];
      if (model_.layer[layer].window != 0) {
        digest = 0;
        for (std::size_t i =
                 model_.layer[layer].first_visible(static_cast<std::uint32_t>(position));
             i <= position; ++i) {
          digest = fold_row(digest, seeds[layer][i]);
        }
      }
      state = next_state(state, digest);
    }
  }
  return static_cast<Token>(mix(state, head_digest_) % model_.vocabulary);
}

std::string World::check_quiet() const {
  if (!memory_->violation().empty()) return memory_->violation();
  if (reads_->in_flight() + writes_->in_flight() > 0) return "requests in flight";
  if (state_->releases_pending > 0) return "releases pending";
  const engine::Residency& residency = state_->residency;
  std::string wrong;
  std::uint64_t resident = 0;
  std::size_t compressed = 0;
  std::size_t stored = 0;
  residency.for_each([&](actors::UnitId unit, const engine::UnitRecord& record) {
    if (record.moving) wrong = "a unit is moving";
    if (record.resident != memory_->populated(unit)) wrong = "residency and memory differ";
    if (record.resident) resident += residency.unit_bytes(unit);
    compressed += record.compressed ? 1U : 0U;
    stored += record.stored ? 1U : 0U;
    if (record.compressed && record.stored) wrong = "a chunk has two forms";
    if (unit.kind != actors::UnitKind::kKv) return;
    const engine::Context& context = state_->cache.contexts().at(unit.context);
    const bool seen = residency.seen(unit, context.next_position());
    if (!seen && (state_->options.free_out_of_window || record.unseen)) {
      wrong = "a chunk that nothing looks at is still there";
    }
    if (seen && !record.resident && !record.has_form() && !record.empty) {
      wrong = "content was lost";
    }
  });
  if (!wrong.empty()) return wrong;
  if (resident != memory_->units_held_bytes()) return "memory is held that no unit has";
  if (compressed != state_->swap.slots()) return "swap slots without an owner";
  if (stored != state_->slots.slots().size()) return "file slots without an owner";
  if (state_->swap.held_bytes() != memory_->process_bytes() - memory_->units_held_bytes()) {
    return "segments are held that the swap does not know";
  }
  return "";
}

}  // namespace mzcache::sim
