// What the public headers say of files, devices and traces.
#include <algorithm>
#include <fstream>

#include "actors/placement.h"
#include "actors/timeline.h"
#include "engine/chat_template.h"
#include "engine/inspect.h"
#include "engine/milliseconds.h"
#include "engine/tokenizer.h"
#include "engine/wiring.h"
#include "mzcache/model_info.h"
#include "mzcache/trace.h"

namespace mzcache {
namespace {

std::uint32_t or_zero(const std::optional<std::uint64_t>& value) {
  return static_cast<std::uint32_t>(value.value_or(0));
}

std::string template_name(const engine::GgufFile& file) {
  const auto tokenizer = engine::Tokenizer::load(file);
  const auto text = file.text("tokenizer.chat_template");
  if (!tokenizer || !text) return "raw";
  const auto chosen = engine::choose_chat_template(**tokenizer, {text->value_or("")});
  return chosen ? std::string((*chosen)->name()) : "raw";
}

void add_units(const engine::ModelInfo& info, ModelInfo& out) {
  if (!info.units) {
    out.unsupported = info.units_absent;
    // A type the format does not know has a size nobody knows.
    const auto sized = [](const ModelInfo::TypeUse& use) { return use.bytes > 0; };
    const bool all = std::all_of(out.tensor_types.begin(), out.tensor_types.end(), sized);
    out.weights_bytes = all ? info.tensor_bytes : 0;
    out.tied_embeddings = info.tied_embeddings;
    return;
  }
  for (const auto& unit : info.units->units) {
    ModelInfo::Unit row;
    row.name = unit.kind == "head" ? "head" : "layer " + std::to_string(unit.layer);
    row.bytes = unit.bytes;
    row.window = unit.window;
    out.units.push_back(std::move(row));
  }
  out.weights_bytes = info.units->weights_bytes;
  out.chunk_bytes = info.units->kv_chunk_bytes;
  out.tied_embeddings = info.units->tied_head;
}

}  // namespace

ModelInfo inspect(const std::string& path) {
  const engine::GgufFile file = value_or_throw(engine::GgufFile::open(path));
  const engine::ModelInfo info = value_or_throw(engine::inspect_model(file));
  ModelInfo out;
  out.file = info.file;
  out.file_bytes = info.file_bytes;
  out.name = info.name;
  out.architecture = info.architecture;
  out.gguf_version = info.gguf_version;
  out.parameters = info.parameters;
  out.layers = or_zero(info.sizes.layers);
  out.hidden = or_zero(info.sizes.hidden);
  out.feed_forward = or_zero(info.sizes.feed_forward);
  out.heads = or_zero(info.sizes.heads);
  out.kv_heads = or_zero(info.sizes.kv_heads);
  out.head_dim = or_zero(info.sizes.head_dim);
  out.vocabulary = or_zero(info.sizes.vocabulary);
  out.context_length = or_zero(info.sizes.context_length);
  for (const auto& use : info.tensor_types) {
    out.tensor_types.push_back({use.type, static_cast<std::uint32_t>(use.tensors), use.bytes});
  }
  out.tokenizer_model = info.tokenizer.model;
  out.tokenizer_splitter = info.tokenizer.pre;
  out.tokenizer_tokens = static_cast<std::uint32_t>(info.tokenizer.tokens);
  out.chat_template = template_name(file);
  out.kv_bytes_per_token = info.kv_bytes_per_token.value_or(0);
  add_units(info, out);
  return out;
}

SystemInfo list_system() {
  SystemInfo system;
  for (const gpu::DeviceInfo& device : gpu::list_devices()) {
    system.devices.push_back(engine::summarize_device(device));
  }
  const actors::CpuTopology topology = value_or_throw(actors::this_topology());
  for (const actors::Core& core : topology.cores) {
    static constexpr const char* kNames[] = {"big", "middle", "little", "any"};
    system.cores.push_back(
        {core.id, kNames[static_cast<std::size_t>(core.core_class)], core.capacity});
  }
  return system;
}

std::vector<TraceStage> summarize_trace(const std::string& path) {
  const actors::TraceFile file = value_or_throw(actors::read_chrome_json(path));
  const actors::TraceSummary summary = actors::summarize(file.spans);
  std::vector<TraceStage> stages;
  for (const actors::StageSummary& stage : summary.stages) {
    const double busy = engine::to_ms(stage.busy);
    TraceStage row;
    row.name = actors::stage_name(stage.stage);
    row.busy_ms = busy;
    row.overlap_compute_percent = busy > 0 ? 100.0 * engine::to_ms(stage.with_compute) / busy : 0;
    row.overlap_others_percent = busy > 0 ? 100.0 * engine::to_ms(stage.with_others) / busy : 0;
    row.spans = stage.spans;
    row.bytes = stage.bytes;
    stages.push_back(std::move(row));
  }
  return stages;
}

void draw_trace(const std::string& path, const std::string& svg_file) {
  const actors::TraceFile file = value_or_throw(actors::read_chrome_json(path));
  std::ofstream out(svg_file, std::ios::binary);
  out << actors::render_svg(file);
  out.flush();
  if (!out) {
    throw Exception({.code = ErrorCode::kIo,
                     .native = errno,
                     .operation = "write",
                     .context = svg_file,
                     .hint = "choose a file in a folder that is there and can be written to"});
  }
}

}  // namespace mzcache
