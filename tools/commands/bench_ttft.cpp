// `mzcache bench ttft`: time to the first token after an eviction, policy by policy, beside what no
// restore can beat on this machine and beside the paper's baseline.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/prompt_thread.h"
#include "command.h"
#include "commands/bench_text.h"
#include "commands/ttft/alone.h"
#include "commands/ttft/engine.h"
#include "commands/ttft/kv_statistics.h"
#include "commands/ttft/row.h"
#include "commands/ttft/runs.h"
#include "engine/tokenizer.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

constexpr std::uint32_t kRecordedLayers = 6;

struct TtftFlags {
  CommonOptions common;
  std::string model;
  std::string context = "2k,8k";
  std::string prompt_tokens = "8";
  std::string remaining = "100,75,50,25,0";
  std::string policy = "mzcache,partial-offload";
  std::string fill = "random";
  std::string state = "warm";
  std::string repeat = "5";
  std::string text_file;
  std::string record_file;
  bool json = false;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

engine::EvaluationPolicy policy_value(const std::string& name) {
  if (auto policy = engine::evaluation_policy(name)) return *policy;
  std::string known;
  for (const std::string& policy : engine::evaluation_policy_names()) {
    known += (known.empty() ? "" : ", ") + policy;
  }
  refuse("--policy", name, known);
}

TtftPlan to_plan(const TtftFlags& flags) {
  TtftPlan plan;
  plan.prompt_tokens =
      static_cast<std::uint32_t>(integer_value("--prompt-tokens", flags.prompt_tokens, 1, 512));
  for (const auto& text : split(flags.context)) {
    plan.contexts.push_back(tokens_value("--context", text, plan.prompt_tokens + 1));
  }
  for (const auto& text : split(flags.remaining)) {
    plan.levels.push_back(number_value("--remaining", text, 0, 100));
  }
  for (const auto& name : split(flags.policy)) plan.policies.push_back(policy_value(name));
  plan.repeat = static_cast<std::uint32_t>(integer_value("--repeat", flags.repeat, 1, 1000));
  plan.cold = choice_value("--state", flags.state, {"warm", "cold"}) == "cold";
  return plan;
}

std::vector<Token> text_tokens(const TtftFlags& flags, std::uint32_t count) {
  const auto gguf = value_or_throw(engine::GgufFile::open(flags.model));
  const auto tokenizer = value_or_throw(engine::Tokenizer::load(gguf));
  const auto encode = [&](const std::string& text) { return tokenizer->encode(text, {}); };
  if (flags.text_file.empty()) return some_text(encode, count);
  std::vector<Token> tokens = encode(read_text_file(flags.text_file));
  if (tokens.size() < count) {
    throw UsageError("-f: " + flags.text_file + " has " + std::to_string(tokens.size()) +
                     " tokens, the context wants " + std::to_string(count));
  }
  tokens.resize(count);
  return tokens;
}

void record(TtftEngine& engine, const std::string& file) {
  StatisticsRecorder recorder(engine.shape(), engine.wiring().model().layers);
  engine.each_chunk([&](const actors::ChunkView& chunk) { recorder.add(chunk); });
  write_file(file, recorder.table(kRecordedLayers));
}

Json machine_json(TtftEngine& engine, const TtftFlags& flags) {
  const DeviceSummary& device = engine.wiring().device();
  const Config& config = engine.config();
  return {{"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"device", device.name},
          {"memory", device.memory},
          {"model", engine.wiring().model().name},
          {"state", flags.state},
          {"fill", flags.fill},
          {"reader_priority", actors::promptness_name(actors::promptness_allowed())},
          {"codec", config.memory.codec},
          {"storage_codec", config.memory.storage_codec},
          {"storage_block_bytes", config.storage.block},
          {"storage_depth", config.storage.depth},
          {"storage_limit_bytes_per_s", config.storage.limit_bytes_per_s}};
}

int run(const TtftFlags& flags) {
  need("-m", flags.model, "a GGUF file");
  const TtftPlan plan = to_plan(flags);
  const bool random = choice_value("--fill", flags.fill, {"random", "prefill"}) == "random";
  const Config config = flags.common.config();
  TtftEngine engine(config, flags.model);
  StagesAlone alone(config, engine.wiring().files(), engine.wiring().codecs(), engine.shape());
  Json rows = Json::array();
  if (!flags.json) print_ttft_heading();
  for (const std::uint32_t context : plan.contexts) {
    const std::uint32_t before = context - plan.prompt_tokens;
    if (random) {
      engine.plant(before);
    } else {
      engine.compute(text_tokens(flags, before));
    }
    if (!flags.record_file.empty()) record(engine, flags.record_file);
    (void)engine.first_token(plan.prompt_tokens);  // kernels are loaded, buffers there
    ContextRuns runs(engine, alone, plan, context);
    for (std::uint32_t i = 1; i <= plan.repeat; ++i) runs.repeat(i);
    for (const Json& row : runs.rows()) {
      if (!flags.json) print_ttft_row(row);
      rows.push_back(row);
    }
    std::fflush(stdout);
    if (!config.trace.file.empty()) engine.write_trace(config.trace.file);
    engine.forget_context();
  }
  if (flags.json) {
    print_json({{"rows", rows}, {"machine", machine_json(engine, flags)}});
  } else {
    std::printf(
        "%s memory, %s context, medians of %u; bound: the longest of reading alone, the "
        "first token in memory, and all CPU time divided among the cores\n",
        flags.state.c_str(), flags.fill.c_str(), plan.repeat);
  }
  return kExitDone;
}

}  // namespace

void add_bench_ttft(CommandLine& group, Commands& commands) {
  auto flags = std::make_shared<TtftFlags>();
  CommandLine& command =
      group.add_subcommand("ttft", "First token after an eviction, beside its lower bound");
  const auto text = [&](const char* flag, std::string& value, const char* what, const char* type) {
    command.add_option(flag, value, what).show_default().type_name(type);
  };
  command.add_option("-m,--model", flags->model, "GGUF file").type_name("FILE");
  text("--context", flags->context, "Tokens of context with the question, rows each", "LIST");
  text("--prompt-tokens", flags->prompt_tokens, "Tokens of the question", "N");
  text("--remaining", flags->remaining, "Percent that remains in memory, rows each", "LIST");
  text("--policy", flags->policy,
       "mzcache, partial-offload, no-overlap, allocation-reload, reload-prefill, forward-out, "
       "random-out, memory-only, storage-only",
       "LIST");
  text("--fill", flags->fill, "random: keys and values drawn like a real model's; prefill", "HOW");
  text("--state", flags->state, "Free memory before a restore: warm, or cold after 3 s", "STATE");
  text("--repeat", flags->repeat, "Runs of each row, in shuffled order; the median counts", "N");
  command.add_option("-f,--file", flags->text_file, "Text for --fill prefill; made up without")
      .type_name("FILE");
  command
      .add_option("--record", flags->record_file,
                  "Writes what the context looks like, as the table --fill random draws from")
      .type_name("FILE");
  flags->common.add_to(command);
  command.add_flag("--json", flags->json, "One JSON object on stdout");
  command.footer(
      "Example:\n  mzcache bench ttft -m models/SmolLM2-135M-Instruct.Q4_1.gguf --context 2k "
      "--remaining 50,0 --policy mzcache,partial-offload");
  commands.push_back({&command, [flags] { return run(*flags); }});
}

}  // namespace mzcache::tools
