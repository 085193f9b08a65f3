// The public face of profile and planner.
#include <algorithm>
#include <asio/use_future.hpp>
#include <chrono>
#include <cstdio>
#include <future>
#include <optional>

#include "codec/registry.h"
#include "engine/gguf.h"
#include "engine/plan_input.h"
#include "engine/planner_times.h"
#include "engine/wiring_profile.h"
#include "mzcache/profile.h"
#include "mzcache/runtime.h"

namespace mzcache {
namespace {

using engine::PlannerOptions;
using engine::Profile;
using engine::RestoreProfile;

// Prefill is measured on this many tokens, where a first, shorter try took less than the limit.
constexpr std::uint32_t kFirstTokens = 128;
constexpr std::uint32_t kTokens = 512;
constexpr double kFirstLimit = 0.5;  // seconds

double evaluate_s(Runtime& runtime, Session session, const ModelInfo& info, std::uint32_t count) {
  Evaluate message;
  message.session = session;
  for (std::uint32_t i = 0; i < count; ++i) {
    message.tokens.push_back(
        static_cast<Token>((std::uint64_t{i} * 7919 + 17) % std::max(1U, info.vocabulary)));
  }
  message.positions = {count - 1};
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(runtime.send(std::move(message), asio::use_future).get());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Loads the weights; everything else about a profile does without.
double measure_prefill(Config config, const std::string& file, const Profile& profile) {
  // The profile is there already.
  config.profile.read_bytes_per_s = engine::read_rate(profile.alone);
  config.profile.decode_bytes_per_s = profile.alone.decode;
  config.profile.allocate_bytes_per_s = profile.alone.allocate;
  Runtime runtime(std::move(config));
  const Model model = runtime.load(file);
  const ModelInfo& info = model.info();
  const std::uint32_t limit = std::max(2U, info.context_length) / 2;
  const std::uint32_t first = std::min(kFirstTokens, limit);
  const Session session = model.open_session();
  evaluate_s(runtime, session, info, std::min(16U, limit));  // brings the weights
  const auto again = [&] {
    static_cast<void>(runtime.send(Reset{session}, asio::use_future).get());
  };
  again();
  double seconds = evaluate_s(runtime, session, info, first);
  std::uint32_t count = first;
  if (seconds < kFirstLimit && limit > first) {
    again();
    count = std::min(kTokens, limit);
    seconds = evaluate_s(runtime, session, info, count);
  }
  return seconds > 0 ? count / seconds : 0;
}

ProfileRates public_rates(const engine::StageRates& rates) {
  return {engine::read_rate(rates), rates.decode, rates.allocate};
}

// r and T (paper, Algorithm 1) and the times they come from.
void add_model_figures(const actors::ModelDescription& model, const RestoreProfile& profile,
                       const PlannerOptions& options, ProfileReport& report) {
  const auto ms = [](engine::Picoseconds time) { return static_cast<double>(time) * 1e-9; };
  engine::PlannedUnit chunk;
  chunk.unit = actors::kv_unit(1, 0, 0);
  chunk.bytes = model.chunk_bytes();
  const engine::UnitTimes chunk_times = engine::unit_times(chunk, profile, options);
  const auto read_ms = [&](std::uint64_t bytes) {
    return ms(engine::transfer_time(bytes, profile.model_read_bytes_per_s));
  };
  double layers_ms = 0;
  for (const auto& layer : model.layer) layers_ms += read_ms(layer.unit_bytes);
  report.read_weights_ms = layers_ms / std::max(1U, model.layers);
  report.read_chunk_ms = ms(chunk_times.read);
  report.decode_chunk_ms = ms(chunk_times.decode);
  report.decode_priced_ms = ms(chunk_times.decode_priced);
  if (report.decode_priced_ms <= 0) return;
  report.r = report.read_weights_ms / report.decode_priced_ms;
  report.threshold_chunks = (layers_ms + read_ms(model.head.unit_bytes)) / report.decode_priced_ms;
}

struct Opened {
  std::unique_ptr<gpu::Device> device;
  std::optional<actors::ModelDescription> model;
  [[nodiscard]] const actors::ModelDescription* description() const {
    return model ? &*model : nullptr;
  }
};

Opened open_for_profile(const Config& config, const std::string& file) {
  Opened opened;
  if (!file.empty()) {
    const engine::GgufFile gguf = value_or_throw(engine::GgufFile::open(file));
    opened.model = value_or_throw(engine::describe_model(gguf));
  }
  opened.device = value_or_throw(gpu::Device::open(engine::to_device_options(config)));
  return opened;
}

// The profile as the planner is to have it: the configuration's figures count first.
engine::ObtainedProfile obtain(const Config& config, const Opened& opened, bool refresh,
                               const engine::NoticeSink& notice) {
  engine::ObtainedProfile obtained;
  if (refresh || !engine::profile_given(config)) {
    obtained = value_or_throw(
        engine::obtain_profile(config, *opened.device, opened.description(), refresh, notice));
  }
  return obtained;
}

// Keeps the model's prefill rate beside the rest.
double prefill_rate(const Config& config, const std::string& file,
                    const actors::ModelDescription& model, bool refresh,
                    engine::ObtainedProfile& obtained, const engine::NoticeSink& notice) {
  const std::string identity = engine::prefill_key(model);
  const auto known = obtained.profile.prefill.find(identity);
  if (!refresh && known != obtained.profile.prefill.end()) return known->second;
  const double rate = measure_prefill(config, file, obtained.profile);
  obtained.profile.prefill[identity] = rate;
  if (!obtained.file.empty() && rate > 0) {
    const Result<void> saved = engine::save_profile(obtained.file, obtained.profile);
    if (!saved && notice) notice(saved.error().message());
  }
  return rate;
}

const char* stage_key(engine::EvictionStage stage) {
  switch (stage) {
    case engine::EvictionStage::kRecompute:
      return "recompute";
    case engine::EvictionStage::kKvOnly:
      return "kv_only";
    case engine::EvictionStage::kKvAndW:
      return "kv_and_w";
    case engine::EvictionStage::kWOnly:
      return "w_only";
    case engine::EvictionStage::kCompKv:
      return "comp_kv";
  }
  return "";
}

const char* place_key(engine::UnitPlace place) {
  switch (place) {
    case engine::UnitPlace::kResident:
      return "resident";
    case engine::UnitPlace::kCompressed:
      return "memory";
    case engine::UnitPlace::kStored:
      return "storage";
    case engine::UnitPlace::kDropped:
      return "dropped";
  }
  return "";
}

const char* unit_key(actors::UnitKind kind) {
  switch (kind) {
    case actors::UnitKind::kWeights:
      return "weights";
    case actors::UnitKind::kKv:
      return "kv";
    case actors::UnitKind::kHead:
      return "head";
  }
  return "";
}

void add_steps(const engine::EvictionPlan& plan, PlanReport& report) {
  for (const engine::EvictionStep& step : plan.steps) {
    PlanReport::Step row;
    row.stage = stage_key(step.stage);
    row.unit = unit_key(step.unit.kind);
    row.layer = step.unit.layer;
    row.chunk = step.unit.chunk;
    row.from = place_key(step.from);
    row.to = step.stage == engine::EvictionStage::kRecompute ? "recompute" : place_key(step.to);
    row.bytes = step.bytes;
    report.steps.push_back(std::move(row));
    switch (step.stage) {
      case engine::EvictionStage::kRecompute:
        ++report.stages.recompute;
        break;
      case engine::EvictionStage::kKvOnly:
        ++report.stages.kv_only;
        break;
      case engine::EvictionStage::kKvAndW:
        ++report.stages.kv_and_w;
        break;
      case engine::EvictionStage::kWOnly:
        ++report.stages.w_only;
        break;
      case engine::EvictionStage::kCompKv:
        ++report.stages.comp_kv;
        break;
    }
  }
}

// Chunks behind every window, where they wait for an eviction: as many as make up `bytes`.
void add_unseen(const std::vector<actors::UnitId>& chunks, std::uint64_t chunk_bytes,
                std::uint64_t bytes, PlanReport& report) {
  for (const actors::UnitId chunk : chunks) {
    if (report.freed_bytes >= bytes) return;
    report.steps.push_back({"out_of_window", unit_key(chunk.kind), chunk.layer, chunk.chunk,
                            "resident", "dropped", chunk_bytes});
    report.freed_bytes += chunk_bytes;
    ++report.stages.out_of_window;
  }
}

std::uint64_t share_of(std::uint64_t bytes, double percent) {
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * percent / 100.0);
}

}  // namespace

ProfileReport measure_profile(const Config& config, const std::string& model, bool refresh,
                              const std::function<void(std::string_view)>& notice) {
  const Opened opened = open_for_profile(config, model);
  engine::ObtainedProfile obtained = value_or_throw(
      engine::obtain_profile(config, *opened.device, opened.description(), refresh, notice));
  ProfileReport report;
  if (opened.model) {
    report.prefill_tokens_per_s =
        prefill_rate(config, model, *opened.model, refresh, obtained, notice);
  }
  const RestoreProfile planned =
      engine::planner_profile(config, obtained.profile, opened.description());
  report.alone = public_rates({planned.model_read_bytes_per_s, planned.swap_read_bytes_per_s,
                               planned.decode_bytes_per_s, planned.allocate_bytes_per_s, 0});
  report.busy = public_rates(obtained.profile.busy);
  report.model_read_bytes_per_s = planned.model_read_bytes_per_s;
  report.swap_read_bytes_per_s = planned.swap_read_bytes_per_s;
  report.write_bytes_per_s = obtained.profile.write_bytes_per_s;
  report.encode_bytes_per_s = obtained.profile.encode_bytes_per_s;
  report.decode_cpu_s_per_byte = obtained.profile.decode_cpu_s_per_byte;
  report.storage_decode_bytes_per_s = planned.storage_decode_bytes_per_s;
  report.storage_decode_cpu_s_per_byte = planned.storage_decode_cpu_s_per_byte;
  report.measure_s = obtained.profile.measure_s;
  report.cached = obtained.cached;
  report.file = obtained.file;
  report.key = obtained.profile.key;
  if (opened.model) {
    add_model_figures(*opened.model, planned,
                      engine::to_planner_options(config, opened.device->info()), report);
  }
  return report;
}

PlanReport plan_eviction(const Config& config, const std::string& model,
                         std::uint32_t context_tokens, const Amount& amount,
                         const std::function<void(std::string_view)>& notice) {
  const Opened opened = open_for_profile(config, model);
  if (!opened.model) throw Exception({ErrorCode::kBadArgument, 0, "plan", "no model is named"});
  const actors::ModelDescription& description = *opened.model;
  if (context_tokens > description.context_length) {
    throw Exception({ErrorCode::kBadArgument, 0, "plan",
                     std::to_string(context_tokens) + " context tokens are more than the model " +
                         "takes (allowed: 0 to " + std::to_string(description.context_length) + ")",
                     "context_tokens"});
  }
  const Profile profile = obtain(config, opened, false, notice).profile;
  const auto typical_bytes = [&](const std::string& codec) {
    return value_or_throw(codec::make_codec(codec))
        ->typical_bytes(description.chunk_layout(), description.chunk_tokens);
  };
  const std::string& storage_codec = config.memory.storage_codec;
  engine::PlannerInput input =
      engine::resident_input(description, context_tokens, typical_bytes(config.memory.codec),
                             storage_codec == "none" ? 0 : typical_bytes(storage_codec));
  PlanReport report;
  for (const engine::PlannedUnit& unit : input.units) {
    (unit.unit.kind == actors::UnitKind::kKv ? report.kv_bytes : report.weights_bytes) +=
        unit.bytes;
  }
  std::vector<actors::UnitId> unseen;
  if (!config.memory.free_out_of_window) {
    unseen = engine::unseen_chunks(description, context_tokens);
  }
  report.kv_bytes += unseen.size() * description.chunk_bytes();
  report.footprint_bytes = report.weights_bytes + report.kv_bytes;
  report.requested_bytes =
      amount.percent >= 0 ? share_of(report.footprint_bytes, amount.percent) : amount.bytes;
  add_unseen(unseen, description.chunk_bytes(), report.requested_bytes, report);
  input.profile = engine::planner_profile(config, profile, &description);
  if (config.memory.compressed_attention) engine::decode_takes_no_time(input.profile);
  if (context_tokens > 0) {
    input.contexts.push_back({engine::kPlannedContext, context_tokens, description.chunk_tokens,
                              description.has_windows()});
  }
  input.storage_free = config.memory.swap_file_max;
  input.memory_swap_free = config.memory.memory_swap_max_bytes > 0
                               ? config.memory.memory_swap_max_bytes
                               : share_of(report.kv_bytes, config.memory.memory_swap_max_percent);
  const engine::EvictionPlan plan =
      engine::make_planner(engine::to_planner_options(config, opened.device->info()))
          ->plan(input,
                 report.requested_bytes - std::min(report.requested_bytes, report.freed_bytes));
  report.freed_bytes += plan.freed_bytes;
  if (report.footprint_bytes > 0) {
    report.remaining_percent = 100.0 *
                               static_cast<double>(report.footprint_bytes - report.freed_bytes) /
                               static_cast<double>(report.footprint_bytes);
  }
  report.restore_memory_ms = plan.restore_memory_s * 1e3;
  report.restore_storage_ms = plan.restore_storage_s * 1e3;
  report.recompute_ms = plan.recompute_s * 1e3;
  add_steps(plan, report);
  return report;
}

}  // namespace mzcache
