#include "engine/wiring.h"

#include <algorithm>
#include <future>
#include <utility>

#include "actors/prompt_thread.h"
#include "engine/pipeline.h"
#include "engine/wiring_codec_profile.h"
#include "engine/wiring_options.h"

namespace mzcache::engine {
namespace {

// Addresses set aside for the in-memory swap: several full contexts. They cost nothing until used.
constexpr std::uint64_t kSwapContexts = 4;
constexpr std::uint64_t kSwapRangeMin = std::uint64_t{64} << 20;
constexpr std::uint64_t kSwapRangeMax = std::uint64_t{64} << 30;

EngineOptions to_engine_options(const Config& config, const actors::ModelDescription& model,
                                std::uint32_t slice_tokens_max) {
  EngineOptions options;
  options.swap_file_max = config.memory.swap_file_max;
  options.memory_swap_max_percent = config.memory.memory_swap_max_percent;
  options.memory_swap_max_bytes = config.memory.memory_swap_max_bytes;
  options.slice_tokens_max = slice_tokens_max;
  options.memory_closed = config.memory.codec == "none";
  options.allocate_first = !(config.overlap.allocation && config.overlap.reload);
  options.compute_last = !(config.overlap.prefill && config.overlap.reload);
  options.compressed_attention = config.memory.compressed_attention;
  options.keep_compressed = config.memory.keep_compressed;
  options.free_out_of_window = config.memory.free_out_of_window;
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
  summary.dot_products = info.dot_products;
  return summary;
}

Result<std::unique_ptr<Wiring>> Wiring::create(const GgufFile& file, const Config& config,
                                               const NoticeSink& notice,
                                               actors::Timeline& timeline) {
  std::unique_ptr<Wiring> wiring(new Wiring);
  Result<actors::ModelDescription> model = describe_model(file);
  if (!model) return model.error();
  wiring->model_ = std::move(*model);
  wiring->shape_ = actors::kv_shape(wiring->model_);
  if (Result<void> made = wiring->make_codecs(config); !made) return made.error();
  if (Result<void> opened = wiring->open_storage(config, notice); !opened) return opened.error();
  if (Result<void> opened = wiring->open_device(config, notice); !opened) return opened.error();
  wiring->know_profile(config, notice);
  if (Result<void> started = wiring->start(config, timeline, notice); !started)
    return started.error();
  return wiring;
}

// One and the same where both tiers have the same name: then a model's codec profile is taken up
// once, and a form of the one is as good as one of the other.
Result<void> Wiring::make_codecs(const Config& config) {
  Result<std::shared_ptr<const actors::KvCodec>> codec = codec::make_codec(config.memory.codec);
  if (!codec) return codec.error();
  codec_ = std::move(*codec);
  if (config.memory.storage_codec == "none") return {};
  if (config.memory.storage_codec == config.memory.codec) {
    storage_codec_ = codec_;
    return {};
  }
  codec = codec::make_codec(config.memory.storage_codec);
  if (!codec) return codec.error();
  storage_codec_ = std::move(*codec);
  return {};
}

Wiring::~Wiring() {
  timer_.reset();
  if (dispatcher_ != nullptr) dispatcher_->stop();
  // What restores have taught; the next start finds it. Where it cannot be written it is learnt
  // again.
  if (state_ == nullptr || kept_profile_.file.empty() || !state_->rates.changed()) return;
  learn_from(state_->rates, kept_profile_.profile);
  static_cast<void>(save_profile(kept_profile_.file, kept_profile_.profile));
}

void Wiring::know_profile(const Config& config, const NoticeSink& notice) {
  if (!profile_given(config)) {
    Result<ObtainedProfile> obtained = obtain_profile(config, *device_, &model_, false, notice);
    if (obtained) {
      kept_profile_ = std::move(*obtained);
    } else if (notice) {
      notice(obtained.error().message() + "; plans are made with assumed rates");
    }
  }
  // Measuring it would load the weights now, just to know.
  const double prefill =
      planner_profile(config, kept_profile_.profile, &model_).prefill_tokens_per_s;
  if (config.policy.recompute && prefill <= 0 && notice) {
    notice(
        "policy.recompute: how fast this model computes is not known, so nothing is left to be "
        "computed again; mzcache profile -m FILE measures it");
  }
}

Result<void> Wiring::open_device(const Config& config, const NoticeSink& notice) {
  Result<std::unique_ptr<gpu::Device>> device = gpu::Device::open(to_device_options(config));
  if (!device) return device.error();
  device_ = std::move(*device);
  device_summary_ = summarize_device(device_->info());
  Result<bool> int8 = activations_int8(config, device_->info());
  if (!int8) return int8.error();
  if (Result<void> ok = check_compressed_attention(config, device_->info()); !ok) return ok;
  gpu::UnitMemory::Options memory_options;
  memory_options.huge_pages = config.memory.huge_pages;
  Result<std::unique_ptr<gpu::UnitMemory>> memory =
      gpu::UnitMemory::create(*device_, unit_sizes(model_), memory_options);
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  for (const std::string& line : device_->notices()) {
    if (notice) notice(line);
  }
  kernels_ = load_kernels(*int8, notice);
  Result<std::unique_ptr<actors::ComputeQueue>> queue =
      gpu::create_compute_queue(*device_, kernels_, *memory_, model_, {});
  if (!queue) return queue.error();
  queue_ = std::move(*queue);
  return {};
}

// On a thread of its own: on a new machine compiling takes seconds, which reading weights hides.
gpu::PendingKernels Wiring::load_kernels(bool int8, const NoticeSink& notice) {
  return std::async(std::launch::async,
                    [device = device_.get(), needs = gpu::needs_of(model_, int8), notice] {
                      const std::size_t said = device->notices().size();
                      Result<gpu::Kernels> kernels = gpu::load_kernels(*device, needs, {});
                      for (std::size_t i = said; notice && i < device->notices().size(); ++i) {
                        notice(device->notices()[i]);
                      }
                      return kernels;
                    })
      .share();
}

Result<void> Wiring::open_storage(const Config& config, const NoticeSink& notice) {
  if (config.memory.swap_file_max > 0) {
    Result<void> usable = io::check_swap_directory(config.memory.swap_directory);
    if (!usable) return usable;
  }
  const io::StorageOptions options = to_storage_options(config, notice);
  Result<std::shared_ptr<io::StorageFiles>> files = io::StorageFiles::open(model_.file, options);
  if (!files) return files.error();
  files_ = std::move(*files);
  for (auto* device : {&reads_, &writes_}) {
    Result<std::unique_ptr<actors::BlockDevice>> opened = io::open_storage(files_, options);
    if (!opened) return opened.error();
    *device = std::move(*opened);
  }
  return {};
}

Result<void> Wiring::start(const Config& config, actors::Timeline& timeline,
                           const NoticeSink& notice) {
  Result<actors::CpuTopology> topology = actors::this_topology();
  if (!topology) return topology.error();
  const actors::Placement placement = to_placement(config.placement);
  if (notice && actors::promptness_allowed() == actors::Promptness::kOrdinary) {
    notice(
        "the storage reader runs at ordinary priority (no right to another: RLIMIT_RTPRIO or "
        "RLIMIT_NICE); restores beside a busy processor take a little longer");
  }
  dispatcher_ = std::make_unique<actors::ThreadedDispatcher>(
      placement, std::move(*topology), timeline,
      device_->info().cpu ? actors::DeviceCores::kShared : actors::DeviceCores::kOwn);
  planner_ = make_planner(to_planner_options(config, device_->info()));
  EngineOptions options = to_engine_options(config, model_, queue_->slice_tokens_max());
  options.allocators = worker_count(placement, actors::ActorKind::kAllocator);
  options.decompressors = worker_count(placement, actors::ActorKind::kDecompressor);
  state_ = std::make_unique<EngineState>(model_, *memory_, codecs(), *planner_,
                                         planner_profile(config, kept_profile_.profile, &model_),
                                         dispatcher_->clock(), options);
  state_->rates =
      RateHistory(kept_profile_.profile.alone, kept_profile_.profile.busy, given_rates(config));
  timer_ = std::make_unique<ThreadTimer>();
  state_->timer = timer_.get();
  observer_ = watch_for_codec_profile(codecs(), model_, shape_, *memory_, *queue_, notice);
  state_->observer = observer_.get();
  if (Result<void> reserved = state_->swap.reserve(state_->options.swap_range_bytes); !reserved) {
    return reserved;
  }
  const WorkerCounts counts{state_->options.allocators, state_->options.decompressors,
                            worker_count(placement, actors::ActorKind::kCompressor)};
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
