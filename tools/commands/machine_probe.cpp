#include "commands/machine_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "actors/threaded_dispatcher.h"
#include "commands/median.h"
#include "commands/ttft/alone.h"
#include "commands/ttft/engine.h"
#include "commands/ttft/kv_statistics.h"
#include "gpu/unit_memory_pages.h"

namespace mzcache::tools {
namespace {

using actors::ActorKind;
using actors::FileId;
using actors::Nanoseconds;

// Runs of each kind, the median of which counts.
constexpr int kSliceRuns = 7;
constexpr int kStageRuns = 3;
constexpr int kLatencyRuns = 15;
// What a stage moves again and again beside the device.
constexpr std::uint64_t kLoopBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kRunBytes = std::uint64_t{8} << 20;
// How long it does so alone.
constexpr auto kLoopAlone = std::chrono::milliseconds(300);

Nanoseconds to_nanoseconds(double seconds) {
  return Nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}
double seconds(Nanoseconds time) { return static_cast<double>(time.count()) * 1e-9; }

template <class Measure>
double median_of(int runs, Measure&& measure) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(runs));
  for (int i = 0; i < runs; ++i) values.push_back(measure());
  return median(std::move(values));
}

// Of a restore, what is read from one file; chunks that lie encoded in it are decoded from there.
Missing from_file(const Missing& missing, FileId file) {
  Missing part;
  part.runs = missing.runs;
  part.bytes = missing.bytes;
  for (const auto& read : missing.reads) {
    if (read.range.file == file) part.reads.push_back(read);
  }
  return part;
}

// Bytes of KV that a slice behind so many tokens reads.
std::uint64_t kv_bytes(const actors::ModelDescription& model, std::uint32_t tokens) {
  std::uint64_t bytes = 0;
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    bytes += sim::kv_bytes_read(model, layer, tokens);
  }
  return bytes;
}

// A slice launched stage by stage, seconds; sums over all layers.
struct SliceTimes {
  double project = 0;
  double attend = 0;
  double head = 0;
  double between = 0;  // the device stood still between two stages
  double turn = 0;     // before the first and after the last one
  double whole = 0;
  double gathered = 0;  // the whole, launched as one piece
};

// Does a stage's work again and again, on a thread placed like its actor's.
class Loop {
 public:
  // `work` returns how many bytes it moved.
  Loop(ActorKind kind, bool device_on_cores, std::function<std::uint64_t()> work)
      : work_(std::move(work)), thread_([this, kind, device_on_cores] {
          actors::take_place(
              kind, device_on_cores ? actors::DeviceCores::kShared : actors::DeviceCores::kOwn);
          run();
        }) {}
  ~Loop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Bytes per second; what was not finished does not count.
  [[nodiscard]] double end() {
    stop_ = true;
    thread_.join();
    return elapsed_ > 0 ? static_cast<double>(bytes_) / elapsed_ : 0;
  }

 private:
  void run() {
    const auto begin = std::chrono::steady_clock::now();
    while (!stop_) {
      const std::uint64_t bytes = work_();
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      if (stop_ && elapsed_ > 0) return;
      bytes_ += bytes;
      elapsed_ = elapsed.count();
    }
  }

  std::function<std::uint64_t()> work_;
  std::atomic<bool> stop_{false};
  std::uint64_t bytes_ = 0;
  double elapsed_ = 0;
  std::thread thread_;  // the last: it uses all of the above
};

class Probe {
 public:
  Probe(const Config& config, const std::string& file, std::uint32_t prompt_tokens)
      : prompt_tokens_(prompt_tokens),
        huge_(config.memory.huge_pages),
        engine_(config, file),
        codec_(*engine_.wiring().codecs().memory),
        alone_(config, engine_.wiring().files(), engine_.wiring().codecs(), engine_.shape()) {}

  [[nodiscard]] MachineProbe run(std::uint32_t context_tokens) {
    probe_.model = engine_.wiring().model();
    probe_.plan_profile = engine_.plan_profile();
    const std::uint32_t chunk = probe_.model.chunk_tokens;
    const std::uint32_t near = chunk > prompt_tokens_ ? chunk - prompt_tokens_ : 1;
    const std::uint32_t far = std::max(near, context_tokens - prompt_tokens_);
    engine_.plant(near);
    const SliceTimes shallow = slice();
    if (far > near) {
      engine_.forget_context();
      engine_.plant(far);
    }
    const SliceTimes deep = far > near ? slice() : shallow;
    fit_device(shallow, deep, static_cast<double>(kv_bytes(probe_.model, near)),
               static_cast<double>(kv_bytes(probe_.model, far)));
    const Missing missing = stages_alone();
    engine_.restore_all();
    stages_beside(missing);
    return std::move(probe_);
  }

 private:
  void use(bool separate_launches) {
    engine_.use(*engine::evaluation_policy("mzcache"), separate_launches);
  }

  [[nodiscard]] SliceTimes slice() {
    std::vector<SliceTimes> runs;
    use(true);
    (void)engine_.first_token(prompt_tokens_);  // warms up
    for (int i = 0; i < kSliceRuns; ++i) {
      const FirstTokenRun run = engine_.first_token(prompt_tokens_);
      SliceTimes times;
      for (std::size_t stage = 0; stage < run.stages.size(); ++stage) {
        const double time = seconds(run.stages[stage].second - run.stages[stage].first);
        (stage + 1 == run.stages.size() ? times.head
         : stage % 2 == 0               ? times.project
                                        : times.attend) += time;
      }
      const double window = seconds(run.stages.back().second - run.stages.front().first);
      times.between = std::max(0.0, window - times.project - times.attend - times.head);
      times.whole = run.answer.ttft_ms * 1e-3;
      times.turn = std::max(0.0, times.whole - window);
      runs.push_back(times);
    }
    use(false);
    (void)engine_.first_token(prompt_tokens_);
    SliceTimes middle;
    middle.gathered = median_of(
        kSliceRuns, [&] { return engine_.first_token(prompt_tokens_).answer.ttft_ms * 1e-3; });
    for (double SliceTimes::* part :
         {&SliceTimes::project, &SliceTimes::attend, &SliceTimes::head, &SliceTimes::between,
          &SliceTimes::turn, &SliceTimes::whole}) {
      std::vector<double> values;
      values.reserve(runs.size());
      for (const SliceTimes& run : runs) values.push_back(run.*part);
      middle.*part = median(std::move(values));
    }
    return middle;
  }

  // What a slice takes follows from bytes of weights and of KV; two contexts tell them apart.
  void fit_device(const SliceTimes& shallow, const SliceTimes& deep, double near, double far) {
    const auto& model = probe_.model;
    const double stages = 2.0 * model.layers + 1;
    double layers_bytes = 0;
    for (const auto& layer : model.layer) layers_bytes += static_cast<double>(layer.unit_bytes);
    const auto both = [&](double SliceTimes::* part) { return (shallow.*part + deep.*part) / 2; };
    // Noise may make the deeper slice the faster one.
    const double kv_s = far > near ? std::max(0.0, deep.attend - shallow.attend) / (far - near) : 0;
    const double attend = std::max(0.0, shallow.attend - kv_s * near);
    const double launch =
        std::max(0.0, both(&SliceTimes::whole) - both(&SliceTimes::gathered)) / stages;
    // Of a stage: what lies between two of them belongs to it, what one launch for all saves not.
    const double beyond = both(&SliceTimes::between) / stages - launch;
    const auto per_byte = [&](double time, double count, double bytes) {
      return std::max(0.0, time + beyond * count) / std::max(1.0, bytes);
    };
    probe_.device.project_s_per_byte =
        per_byte(both(&SliceTimes::project), model.layers, layers_bytes);
    probe_.device.attend_s_per_byte = per_byte(attend, model.layers, layers_bytes);
    probe_.device.head_s_per_byte =
        per_byte(both(&SliceTimes::head), 1, static_cast<double>(model.head.unit_bytes));
    probe_.device.launch = to_nanoseconds(launch);
    probe_.device_kv_bytes_per_s = kv_s > 0 ? 1 / kv_s : 1e15;
    probe_.turn = to_nanoseconds(both(&SliceTimes::turn));
    probe_.slice_ms = shallow.whole * 1e3;
    probe_.slice_gathered_ms = shallow.gathered * 1e3;
    probe_.slice_after_context_ms = deep.whole * 1e3;
    device_s_ = deep.project + deep.attend + deep.head;
  }

  // Everything is evicted; each stage of the restore that would follow, alone.
  [[nodiscard]] Missing stages_alone() {
    (void)engine_.evict_to(0);
    Missing missing = engine_.missing();
    (void)alone_.allocate(missing);  // what was never in use is slow to come
    alone_.let_go();
    const auto rate = [](std::uint64_t bytes, double ms) {
      return bytes == 0 ? 0 : static_cast<double>(bytes) / std::max(1e-6, ms) * 1e3;
    };
    probe_.allocate_bytes_per_s = rate(missing.bytes, median_of(kStageRuns, [&] {
                                         alone_.let_go();
                                         return alone_.allocate(missing).ms;
                                       }));
    for (const FileId file : {FileId::kModel, FileId::kSwap}) {
      const Missing part = from_file(missing, file);
      if (part.reads.empty()) continue;
      std::uint64_t bytes = 0;
      const double ms = median_of(kStageRuns, [&] { return alone_.read(part, bytes).ms; });
      (file == FileId::kModel ? probe_.model_read_bytes_per_s : probe_.swap_read_bytes_per_s) =
          rate(bytes, ms);
    }
    std::uint64_t bytes = 0;
    (void)alone_.read(missing, bytes);
    probe_.decode_bytes_per_s =
        rate(missing.decodes.size() * engine_.shape().layout.bytes(),
             median_of(kStageRuns, [&] { return alone_.decode(missing).ms; }));
    measure_latency(missing);
    return missing;
  }

  // One block alone, here and there in the model file.
  void measure_latency(const Missing& missing) {
    const std::uint64_t blocks = probe_.model.file_bytes / actors::kBlockAlignment;
    std::uint64_t at = 0;
    Missing one;
    one.runs = missing.runs;
    one.reads.resize(1);
    const double ms = median_of(kLatencyRuns, [&] {
      at = (at + blocks / kLatencyRuns + 1) % std::max<std::uint64_t>(1, blocks);
      one.reads[0].range = {FileId::kModel, at * actors::kBlockAlignment, 0,
                            actors::kBlockAlignment};
      std::uint64_t bytes = 0;
      return alone_.read(one, bytes).ms;
    });
    probe_.storage_latency = to_nanoseconds(ms * 1e-3);
  }

  void stages_beside(const Missing& missing) {
    use(true);
    probe_.contention.allocate = beside(ActorKind::kAllocator, [this] { return populate_some(); });
    ring_ = populated(kLoopBytes);
    encode_one();
    probe_.contention.decode = beside(ActorKind::kDecompressor, [this] { return decode_some(); });
    Missing some;
    some.runs = {kLoopBytes};
    some.bytes = some.runs.front();
    std::uint64_t total = 0;
    for (const auto& read : missing.reads) {
      if (read.range.file != FileId::kModel || total + read.range.bytes > kLoopBytes) continue;
      some.reads.push_back(read);
      total += read.range.bytes;
    }
    if (some.reads.empty()) return;
    (void)alone_.allocate(some);
    probe_.contention.read = beside(ActorKind::kStorageReader, [&] {
      std::uint64_t bytes = 0;
      (void)alone_.read(some, bytes);
      return bytes;
    });
    alone_.let_go();
  }

  [[nodiscard]] sim::Beside beside(ActorKind kind, const std::function<std::uint64_t()>& work) {
    const bool shared = engine_.device_on_cores();
    double alone = 0;
    (void)work();  // its memory is warm from here on
    {
      Loop loop(kind, shared, work);
      std::this_thread::sleep_for(kLoopAlone);
      alone = loop.end();
    }
    Loop loop(kind, shared, work);
    const double device_s = median_of(
        kSliceRuns, [&] { return engine_.first_token(prompt_tokens_).compute_ms * 1e-3; });
    const double rate = loop.end();
    const auto share = [](double value) { return std::clamp(value, 0.05, 1.0); };
    return {share(alone > 0 ? rate / alone : 1), share(device_s > 0 ? device_s_ / device_s : 1)};
  }

  [[nodiscard]] gpu::PageReservation populated(std::uint64_t bytes) const {
    gpu::PageReservation memory = value_or_throw(gpu::PageReservation::create(bytes));
    for (std::uint64_t at = 0; at < bytes; at += kRunBytes) {
      Result<void> there = gpu::populate_pages(memory.data() + at, kRunBytes, huge_, {});
      if (!there) throw Exception(std::move(there.error()));
    }
    return memory;
  }
  [[nodiscard]] std::uint64_t populate_some() const { return populated(kLoopBytes).bytes(); }

  void encode_one() {
    const actors::KvShape& shape = engine_.shape();
    std::vector<std::byte> raw(shape.layout.bytes());
    RandomKv draw(recorded_statistics(), shape, 1);
    const actors::UnitId unit = actors::kv_unit(0, 0, 0);
    draw.fill(shape.view<std::byte>(unit, shape.layout.tokens, raw));
    encoded_.resize(codec_.bound(shape.layout, shape.layout.tokens));
    scratch_.resize(codec_.scratch_bytes(shape.layout));
    encoded_.resize(value_or_throw(codec_.encode(
        shape.view<const std::byte>(unit, shape.layout.tokens, raw), encoded_, scratch_)));
  }
  // As many chunks as fit, one behind the other.
  [[nodiscard]] std::uint64_t decode_some() {
    const actors::KvShape& shape = engine_.shape();
    const std::uint64_t chunk = shape.layout.bytes();
    std::uint64_t at = 0;
    for (; at + chunk <= ring_.bytes(); at += chunk) {
      const auto view = shape.view<std::byte>(actors::kv_unit(0, 0, 0), shape.layout.tokens,
                                              std::span(ring_.data() + at, chunk));
      if (Result<void> decoded = codec_.decode(encoded_, view, scratch_); !decoded) {
        throw Exception(std::move(decoded.error()));
      }
    }
    return at;
  }

  const std::uint32_t prompt_tokens_;
  const bool huge_;
  TtftEngine engine_;
  const actors::KvCodec& codec_;
  StagesAlone alone_;
  MachineProbe probe_;
  double device_s_ = 0;  // of the deep slice, nothing beside it
  std::vector<std::byte> encoded_;
  std::vector<std::byte> scratch_;
  gpu::PageReservation ring_;
};

}  // namespace

MachineProbe probe_machine(const Config& config, const std::string& file,
                           std::uint32_t context_tokens, std::uint32_t prompt_tokens) {
  return Probe(config, file, prompt_tokens).run(context_tokens);
}

}  // namespace mzcache::tools
