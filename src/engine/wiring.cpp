#include "engine/wiring.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/pipeline.h"

namespace mzcache::engine {
namespace {

// Addresses set aside for the in-memory swap: several full contexts. They cost nothing until used.
constexpr std::uint64_t kSwapContexts = 4;
constexpr std::uint64_t kSwapRangeMin = std::uint64_t{64} << 20;
constexpr std::uint64_t kSwapRangeMax = std::uint64_t{64} << 30;

actors::CoreClass core_class(const std::string& name) {
  if (name == "big") return actors::CoreClass::kBig;
  if (name == "middle") return actors::CoreClass::kMiddle;
  if (name == "little") return actors::CoreClass::kLittle;
  return actors::CoreClass::kAny;
}

actors::Placement to_placement(const Config::Placement& config) {
  using actors::ActorKind;
  const std::array<std::pair<ActorKind, const PlacementConfig*>, 6> kinds{{
      {ActorKind::kStorageReader, &config.storage_reader},
      {ActorKind::kStorageWriter, &config.storage_writer},
      {ActorKind::kDecompressor, &config.decompressor},
      {ActorKind::kCompressor, &config.compressor},
      {ActorKind::kAllocator, &config.allocator},
      {ActorKind::kPrefill, &config.prefill},
  }};
  actors::Placement placement;
  for (const auto& [kind, rule] : kinds) {
    placement[kind] = {core_class(rule->cores), rule->core_ids, rule->workers};
  }
  return placement;
}

EvictionOrder to_order(const std::string& name) {
  if (name == "forward-out") return EvictionOrder::kForwardOut;
  if (name == "random-out") return EvictionOrder::kRandomOut;
  return EvictionOrder::kBackwardOut;
}

EvictionPaths to_paths(const std::string& name) {
  if (name == "memory") return EvictionPaths::kMemory;
  if (name == "storage") return EvictionPaths::kStorage;
  return EvictionPaths::kHybrid;
}

PlannerOptions to_planner_options(const Config& config, const gpu::DeviceInfo& device) {
  PlannerOptions options;
  options.order = to_order(config.policy.order);
  options.paths = to_paths(config.policy.paths);
  options.seed = config.policy.seed;
  options.cpu_price = config.policy.cpu_price >= 0 ? config.policy.cpu_price
                      : device.cpu                 ? 1.0
                                                   : 0.0;
  options.cores = std::max(1U, device.compute_units);
  options.lossless_only = config.memory.codec == "none";
  return options;
}

RestoreProfile to_profile(const Config::Profile& config) {
  RestoreProfile profile;
  if (config.read_bytes_per_s > 0) profile.read_bytes_per_s = config.read_bytes_per_s;
  if (config.decode_bytes_per_s > 0) profile.decode_bytes_per_s = config.decode_bytes_per_s;
  if (config.allocate_bytes_per_s > 0) profile.allocate_bytes_per_s = config.allocate_bytes_per_s;
  return profile;
}

EngineOptions to_engine_options(const Config& config, const actors::ModelDescription& model,
                                std::uint32_t slice_tokens_max) {
  EngineOptions options;
  options.swap_file_max = config.memory.swap_file_max;
  options.memory_swap_max_percent = config.memory.memory_swap_max_percent;
  options.memory_swap_max_bytes = config.memory.memory_swap_max_bytes;
  options.slice_tokens_max = slice_tokens_max;
  options.lossless_only = config.memory.codec == "none";
  options.allocate_first = !(config.overlap.allocation && config.overlap.reload);
  options.compute_last = !(config.overlap.prefill && config.overlap.reload);
  options.keep_compressed = config.memory.keep_compressed;
  options.resume_delay =
      actors::Nanoseconds(static_cast<std::int64_t>(config.policy.resume_delay_s * 1e9));
  const std::uint64_t chunks = model.context_length / model.chunk_tokens + 1;
  options.swap_range_bytes = std::clamp(chunks * model.layers * model.chunk_bytes() * kSwapContexts,
                                        kSwapRangeMin, kSwapRangeMax);
  return options;
}

}  // namespace

DeviceSummary summarize_device(const gpu::DeviceInfo& info) {
  DeviceSummary summary;
  summary.name = info.name;
  summary.platform = info.platform;
  summary.version = info.version;
  summary.driver = info.driver;
  summary.svm = info.svm;
  summary.memory = gpu::memory_mode_name(info.mode);
  summary.granularity = info.mode == gpu::MemoryMode::kHostMapping ? "chunk" : "layer";
  summary.kernels = info.kernels;
  summary.compute_units = info.compute_units;
  summary.float_width = info.float_width;
  summary.cpu = info.cpu;
  summary.fp16 = info.fp16;
  summary.subgroups = info.subgroups;
  return summary;
}

Result<std::unique_ptr<Wiring>> Wiring::create(const GgufFile& file, const Config& config,
                                               const NoticeSink& notice,
                                               actors::Timeline& timeline) {
  std::unique_ptr<Wiring> wiring(new Wiring);
  Result<actors::ModelDescription> model = describe_model(file);
  if (!model) return model.error();
  wiring->model_ = std::move(*model);
  wiring->shape_ = {wiring->model_.chunk_layout(), wiring->model_.rope};
  Result<std::shared_ptr<const actors::KvCodec>> codec = codec::make_codec(config.memory.codec);
  if (!codec) return codec.error();
  wiring->codec_ = std::move(*codec);
  if (Result<void> opened = wiring->open_storage(config, notice); !opened) return opened.error();
  if (Result<void> opened = wiring->open_device(config, notice); !opened) return opened.error();
  if (Result<void> started = wiring->start(config, timeline); !started) return started.error();
  return wiring;
}

Wiring::~Wiring() {
  timer_.reset();
  if (dispatcher_ != nullptr) dispatcher_->stop();
}

Result<void> Wiring::open_device(const Config& config, const NoticeSink& notice) {
  static_cast<void>(notice);
  gpu::DeviceOptions options;
  options.name = config.device.name;
  options.kernels = config.device.kernels;
  options.pin_workers = config.device.pin_workers;
  Result<std::unique_ptr<gpu::Device>> device = gpu::Device::open(options);
  if (!device) return device.error();
  device_ = std::move(*device);
  device_summary_ = summarize_device(device_->info());
  Result<cl::Program> program = gpu::load_program(*device_, {});
  if (!program) return program.error();
  program_ = std::move(*program);

  gpu::UnitSizes sizes;
  for (const auto& layer : model_.layer) sizes.weights_bytes.push_back(layer.unit_bytes);
  sizes.head_bytes = model_.head.unit_bytes;
  sizes.chunk_bytes = model_.chunk_bytes();
  gpu::UnitMemory::Options memory_options;
  memory_options.huge_pages = config.memory.huge_pages;
  Result<std::unique_ptr<gpu::UnitMemory>> memory =
      gpu::UnitMemory::create(*device_, sizes, memory_options);
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  Result<std::unique_ptr<actors::ComputeQueue>> queue =
      gpu::create_compute_queue(*device_, program_, *memory_, model_, {});
  if (!queue) return queue.error();
  queue_ = std::move(*queue);
  return {};
}

Result<void> Wiring::open_storage(const Config& config, const NoticeSink& notice) {
  io::StorageOptions options;
  options.block = config.storage.block;
  options.depth = config.storage.depth;
  options.direct = config.storage.direct;
  options.engine = config.storage.engine;
  options.limit_bytes_per_s = config.storage.limit_bytes_per_s;
  options.swap_directory = config.memory.swap_directory;
  options.swap_bytes_max = config.memory.swap_file_max;
  options.notice = [notice](const std::string& line) {
    if (notice) notice(line);
  };
  if (config.memory.swap_file_max > 0) {
    Result<void> usable = io::check_swap_directory(config.memory.swap_directory);
    if (!usable) return usable;
  }
  Result<std::shared_ptr<io::StorageFiles>> files =
      io::StorageFiles::open(model_.file, options);
  if (!files) return files.error();
  files_ = std::move(*files);
  for (auto* device : {&reads_, &writes_}) {
    Result<std::unique_ptr<actors::BlockDevice>> opened = io::open_storage(files_, options);
    if (!opened) return opened.error();
    *device = std::move(*opened);
  }
  return {};
}

Result<void> Wiring::start(const Config& config, actors::Timeline& timeline) {
  Result<actors::CpuTopology> topology = actors::this_topology();
  if (!topology) return topology.error();
  const actors::Placement placement = to_placement(config.placement);
  dispatcher_ = std::make_unique<actors::ThreadedDispatcher>(placement, std::move(*topology), timeline);
  planner_ = make_planner(to_planner_options(config, device_->info()));
  state_ = std::make_unique<EngineState>(
      model_, *memory_, *codec_, *planner_, to_profile(config.profile), dispatcher_->clock(),
      to_engine_options(config, model_, queue_->slice_tokens_max()));
  timer_ = std::make_unique<ThreadTimer>();
  state_->timer = timer_.get();
  if (Result<void> reserved = state_->swap.reserve(state_->options.swap_range_bytes); !reserved) {
    return reserved;
  }
  const auto workers = [&](actors::ActorKind kind) {
    return std::max(1U, placement[kind].workers);  // auto: one, as measured on two cores
  };
  const WorkerCounts counts{workers(actors::ActorKind::kAllocator),
                            workers(actors::ActorKind::kDecompressor),
                            workers(actors::ActorKind::kCompressor)};
  try {
    coordinator_ = spawn_pipeline(*dispatcher_, *state_, shape_,
                                  {*memory_, *reads_, *writes_, *queue_}, counts);
    dispatcher_->start();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return {};
}

}  // namespace mzcache::engine
