#include "commands/ttft/engine.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <future>
#include <utility>

#include "actors/intervals.h"
#include "codec/kv_profile.h"
#include "commands/ttft/idle.h"
#include "commands/ttft/kv_statistics.h"
#include "engine/gguf.h"
#include "engine/milliseconds.h"
#include "engine/wiring_codec_profile.h"

namespace mzcache::tools {
namespace {

using actors::UnitId;

// Positions beyond the context: the question and the answer.
constexpr std::uint32_t kRoomTokens = 1024;
constexpr std::uint64_t kSeed = 1;

void check(const Error& error) {
  if (error.code != ErrorCode::kOk) throw Exception(error);
}

// The first token is all that is asked for.
class FirstToken final : public engine::TokenSource {
 public:
  [[nodiscard]] Decision next(std::span<const float>, std::span<const Token>) noexcept override {
    return {0, StopReason::kLength};
  }
};

double process_cpu_ms() {
  timespec now = {};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

double system_cpu_ms() {
  rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<double>(usage.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(usage.ru_stime.tv_usec) * 1e-3;
}

std::vector<Token> random_tokens(std::uint32_t count, std::uint32_t vocabulary) {
  std::vector<Token> tokens;
  std::uint64_t state = kSeed;
  for (std::uint32_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    tokens.push_back(static_cast<Token>((state >> 33) % vocabulary));
  }
  return tokens;
}

// The device's busy time, and its waits during which the stage it waited for was not at work.
void add_device_times(const std::vector<actors::SpanRecord>& spans, std::size_t depth,
                      FirstTokenRun& run) {
  actors::Intervals computing;
  for (const actors::SpanRecord& span : spans) {
    using actors::Stage;
    if (span.stage == Stage::kCompute) computing.emplace_back(span.begin, span.end);
  }
  run.stages = computing;
  std::sort(run.stages.begin(), run.stages.end());
  run.compute_ms = engine::to_ms(actors::total(actors::normalized(std::move(computing))));
  run.idle_ms = engine::to_ms(idle_time(spans, depth));
}

}  // namespace

TtftEngine::TtftEngine(const Config& config, const std::string& model_file) : config_(config) {
  const auto gguf = value_or_throw(engine::GgufFile::open(model_file));
  wiring_ = value_or_throw(engine::Wiring::create(
      gguf, config_,
      [](std::string_view notice) {
        std::fprintf(stderr, "mzcache: %.*s\n", static_cast<int>(notice.size()), notice.data());
      },
      timeline_));
  shape_ = actors::kv_shape(wiring_->model());
  timeline_.enable(true);
}

TtftEngine::~TtftEngine() {
  std::promise<void> quiet;
  wiring_->coordinator().post(engine::Shutdown{[&quiet] { quiet.set_value(); }});
  quiet.get_future().wait();
  wiring_.reset();
}

void TtftEngine::arrange(const std::function<void(engine::EngineState&)>& change) {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> arranged = done->get_future();
  wiring_->coordinator().post(engine::ArrangeRequest{change, [done] { done->set_value(); }});
  arranged.get();
}

engine::RestoreProfile TtftEngine::plan_profile() {
  engine::RestoreProfile profile;
  arrange([&](engine::EngineState& state) { profile = state.profile; });
  return profile;
}

void TtftEngine::open_context(std::uint32_t tokens) {
  const std::uint32_t limit = wiring_->model().context_length;
  if (tokens >= limit) {
    throw Exception({ErrorCode::kBadArgument, 0, "--context",
                     std::to_string(tokens) + " tokens and a question; the model takes " +
                         std::to_string(limit)});
  }
  ++context_;
  tokens_ = tokens;
  auto done = std::make_shared<std::promise<Error>>();
  std::future<Error> opened = done->get_future();
  wiring_->coordinator().post(
      engine::OpenContext{context_, std::min(limit, tokens + kRoomTokens),
                          [done](const Error& error) { done->set_value(error); }});
  check(opened.get());
}

void TtftEngine::plant(std::uint32_t tokens) {
  open_context(tokens);
  restore_all();
  RandomKv draw(recorded_statistics(), shape_, kSeed);
  Error failed;
  arrange([&](engine::EngineState& state) {
    engine::Context& context = *state.cache.find(context_);
    context.tokens = random_tokens(tokens, state.model.embedding.rows);
    context.kv_tokens = tokens;
    context.chunks = (tokens + state.chunk_tokens() - 1) / state.chunk_tokens();
    state.residency.set_chunks(context_, context.chunks);
    for (std::uint32_t layer = 0; layer < state.model.layers; ++layer) {
      std::vector<UnitId> run;
      run.reserve(context.chunks);
      for (std::uint32_t chunk = 0; chunk < context.chunks; ++chunk) {
        run.push_back(actors::kv_unit(context_, layer, chunk));
      }
      if (Result<void> there = state.memory.populate(run); !there) {
        failed = there.error();
        return;
      }
      for (const UnitId unit : run) {
        state.memory.begin_host_access(unit);
        draw.fill(shape_.view<std::byte>(unit,
                                         context.tokens_in_chunk(unit.chunk, state.chunk_tokens()),
                                         state.memory.bytes(unit)));
        state.memory.end_host_access(unit);
        state.residency[unit].empty = false;
        state.residency.set_resident(unit, true);
      }
    }
    state.free_unseen(context);
  });
  check(failed);
  give_codec_profile();
}

// Of what was drawn, as if it had been computed: a real model's profile would be of other values.
// Every channel is looked at alike.
void TtftEngine::give_codec_profile() {
  const engine::ProfiledCodecs wanting = engine::profiled_codecs(wiring_->codecs());
  if (wanting.empty()) return;
  const actors::ModelDescription& model = wiring_->model();
  codec::ProfileBuilder builder(shape_.layout, model.layers);
  each_chunk([&](const actors::ChunkView& chunk) {
    if (chunk.token_count == shape_.layout.tokens)
      builder.add_chunk(chunk, engine::kCodecProfileTokensEvery);
  });
  const std::vector<float> energy(std::size_t{model.heads} * model.head_dim, 1.0F);
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    builder.add_queries(layer, energy, 1, 1.0F, shape_.ropes[layer]);
  }
  Result<codec::KvProfile> built = builder.build(model.identity);
  if (!built) return;  // no whole chunk in some layer
  engine::adopt(wanting, std::move(*built));
}

void TtftEngine::compute(std::vector<Token> tokens) {
  open_context(static_cast<std::uint32_t>(tokens.size()));
  engine::GenerateRequest request;
  request.tokens = std::move(tokens);
  check(generate(std::move(request)).error);
  restore_all();
}

void TtftEngine::each_chunk(const std::function<void(const actors::ChunkView&)>& visit) {
  arrange([&](engine::EngineState& state) {
    const engine::Context& context = *state.cache.find(context_);
    state.residency.for_each([&](UnitId unit, const engine::UnitRecord& record) {
      if (unit.kind != actors::UnitKind::kKv || !record.resident) return;
      state.memory.begin_host_access(unit);
      visit(shape_.view<const std::byte>(unit,
                                         context.tokens_in_chunk(unit.chunk, state.chunk_tokens()),
                                         state.memory.bytes(unit)));
      state.memory.end_host_access(unit);
    });
  });
}

void TtftEngine::forget_context() {
  if (tokens_ == 0) return;
  arrange([this](engine::EngineState& state) {
    engine::Context& context = *state.cache.find(context_);
    state.lose_kv(context);
    context.tokens.clear();
  });
  restore_all();  // in turn behind what is released
  arrange([this](engine::EngineState& state) {
    state.cache.close(context_);
    state.memory.close_context(context_);
  });
  tokens_ = 0;
}

void TtftEngine::use(const engine::EvaluationPolicy& policy, bool separate_launches) {
  gpu::DeviceInfo device;
  device.cpu = wiring_->device().cpu;
  device.compute_units = wiring_->device().compute_units;
  planners_.push_back(engine::make_planner(policy, engine::to_planner_options(config_, device)));
  arrange([&](engine::EngineState& state) {
    state.planner = planners_.back().get();
    engine::set_overlaps(policy, state.options);
    state.options.separate_launches = separate_launches;
  });
  planners_.erase(planners_.begin(), planners_.end() - 1);
}

EvictReport TtftEngine::evict_to(double remaining_percent) {
  engine::EvictRequest request;
  request.id = ++requests_;
  request.percent = 100 - remaining_percent;
  request.accepted = wiring_->clock().now();
  auto done = std::make_shared<std::promise<std::pair<Error, EvictReport>>>();
  auto evicted = done->get_future();
  request.done = [done](Error error, EvictReport report) {
    done->set_value({std::move(error), std::move(report)});
  };
  wiring_->coordinator().post(std::move(request));
  auto [error, report] = evicted.get();
  check(error);
  return report;
}

Missing TtftEngine::missing() {
  Missing missing;
  arrange([&](engine::EngineState& state) { missing = missing_of(state, context_); });
  return missing;
}

engine::GenerateResult TtftEngine::generate(engine::GenerateRequest request) {
  request.id = ++requests_;
  request.context = context_;
  request.accepted = wiring_->clock().now();
  auto done = std::make_shared<std::promise<engine::GenerateResult>>();
  auto answered = done->get_future();
  request.done = [done](engine::GenerateResult result) { done->set_value(std::move(result)); };
  wiring_->coordinator().post(std::move(request));
  return answered.get();
}

FirstTokenRun TtftEngine::first_token(std::uint32_t prompt_tokens) {
  timeline_.clear();
  engine::GenerateRequest request;
  request.tokens = random_tokens(prompt_tokens, wiring_->model().embedding.rows);
  request.source = std::make_shared<FirstToken>();
  FirstTokenRun run;
  const double cpu = process_cpu_ms();
  const double system = system_cpu_ms();
  engine::GenerateResult result = generate(std::move(request));
  run.cpu_ms = process_cpu_ms() - cpu;
  run.system_cpu_ms = system_cpu_ms() - system;
  check(result.error);
  run.answer = std::move(result.answer);
  add_device_times(timeline_.snapshot(), config_.storage.depth, run);
  roll_back();
  return run;
}

// Keys and values of the question overwrote nothing: they come after the context.
void TtftEngine::roll_back() {
  arrange([this](engine::EngineState& state) {
    engine::Context& context = *state.cache.find(context_);
    context.tokens.resize(tokens_);
    context.kv_tokens = std::min(context.kv_tokens, tokens_);
    state.trim_chunks(context, (tokens_ + state.chunk_tokens() - 1) / state.chunk_tokens());
  });
}

RestoreReport TtftEngine::restore_all() {
  engine::RestoreRequest request;
  request.id = ++requests_;
  request.keep_copies = false;
  request.accepted = wiring_->clock().now();
  auto done = std::make_shared<std::promise<std::pair<Error, RestoreReport>>>();
  auto restored = done->get_future();
  request.done = [done](Error error, RestoreReport report) {
    done->set_value({std::move(error), std::move(report)});
  };
  wiring_->coordinator().post(std::move(request));
  auto [error, report] = restored.get();
  check(error);
  return report;
}

void TtftEngine::write_trace(const std::string& file) {
  if (Result<void> written = timeline_.write_chrome_json(file); !written) {
    throw Exception(std::move(written.error()));
  }
}

}  // namespace mzcache::tools
