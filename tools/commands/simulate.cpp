// `mzcache simulate`: the same actors on modelled devices under virtual time; rows as in `bench
// ttft`.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "command.h"
#include "commands/simulate_this.h"
#include "options.h"
#include "report_json.h"
#include "sim/ttft.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

constexpr const char* kThis = "this";

struct SimulateOptions {
  CommonOptions common;
  std::string machine = "galaxy-s25plus";
  std::string shape;  // qwen3-0.6b where there is no file either
  std::string file;
  std::string context = "8k,16k,32k";
  std::string remaining = "75,50,25,0";
  std::string policy;
  std::string prompt_tokens = "8";
  bool json = false;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

const sim::MachineModel& find_machine(const std::string& name) {
  std::string known;
  for (const sim::MachineModel& machine : sim::machines()) {
    if (machine.name == name) return machine;
    known += (known.empty() ? "" : ", ") + machine.name;
  }
  refuse("--machine", name, known + ", " + kThis);
}

sim::TtftOptions to_options(const SimulateOptions& options) {
  sim::TtftOptions wanted;
  const Config config = options.common.config();
  wanted.seed = config.policy.seed;
  wanted.trace_file = config.trace.file;
  for (const std::string& context : split(options.context)) {
    const Result<std::uint32_t> tokens = parse_tokens(context);
    if (!tokens || *tokens == 0) refuse("--context", context, "token counts such as 8k,16k");
    wanted.contexts.push_back(*tokens);
  }
  for (const std::string& percent : split(options.remaining)) {
    wanted.remaining.push_back(static_cast<double>(integer_value("--remaining", percent, 0, 100)));
  }
  wanted.policies = split(options.policy);
  wanted.prompt_tokens =
      static_cast<std::uint32_t>(integer_value("--prompt-tokens", options.prompt_tokens, 1, 512));
  return wanted;
}

Json to_json(const sim::TtftRow& row) {
  return {{"context_tokens", row.context_tokens},
          {"remaining_percent", row.remaining_percent},
          {"asked_percent", row.asked_percent},
          {"policy", row.policy},
          {"reachable", row.reachable},
          {"ttft_ms", row.ttft_ms},
          {"allocate_ms", row.allocate_ms},
          {"read_ms", row.read_ms},
          {"decode_ms", row.decode_ms},
          {"compute_ms", row.compute_ms},
          {"wait_ms", row.wait_ms},
          {"bytes_read", row.bytes_read},
          {"bytes_decoded", row.bytes_decoded},
          {"in_memory_ms", row.in_memory_ms},
          {"partial_offload_ms", row.partial_offload_ms}};
}

void print_table(const std::vector<sim::TtftRow>& rows) {
  std::printf("%8s %6s %-18s %9s %9s %9s %9s %9s %9s %8s\n", "context", "left %", "policy",
              "ttft ms", "alloc ms", "read ms", "decode ms", "comp. ms", "wait ms", "speed-up");
  for (const sim::TtftRow& row : rows) {
    if (!row.reachable) {
      std::printf("%8u %6.0f %-18s not reachable (%.0f %% remain)\n", row.context_tokens,
                  row.asked_percent, row.policy.c_str(), row.remaining_percent);
      continue;
    }
    std::printf("%8u %6.1f %-18s %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %7.2fx\n", row.context_tokens,
                row.remaining_percent, row.policy.c_str(), row.ttft_ms, row.allocate_ms,
                row.read_ms, row.decode_ms, row.compute_ms, row.wait_ms,
                row.partial_offload_ms / row.ttft_ms);
  }
}

ThisMachine simulated_machine(const SimulateOptions& options, const sim::TtftOptions& wanted) {
  const bool here = options.machine == kThis;
  if (!options.file.empty() && !here) throw UsageError("-m: only with --machine this");
  if (!options.file.empty() && !options.shape.empty()) throw UsageError("--model: not with -m");
  if (!options.file.empty()) {
    return this_machine_with_file(options.common.config(), options.file,
                                  *std::max_element(wanted.contexts.begin(), wanted.contexts.end()),
                                  wanted.prompt_tokens);
  }
  const Result<actors::ModelDescription> model =
      sim::model_of_shape(options.shape.empty() ? "qwen3-0.6b" : options.shape);
  if (!model) throw UsageError("--model: " + model.error().context);
  if (here) return this_machine_with_shape(options.common.config(), *model, wanted.prompt_tokens);
  const sim::MachineModel& machine = find_machine(options.machine);
  return {machine, *model, {{"name", machine.name}, {"simulated", true}}};
}

int run(const SimulateOptions& options) {
  const sim::TtftOptions wanted = to_options(options);
  if (wanted.contexts.empty()) refuse("--context", options.context, "token counts such as 8k,16k");
  const ThisMachine simulated = simulated_machine(options, wanted);
  const auto rows = sim::simulate_ttft(simulated.machine, simulated.model, wanted);
  if (!rows && rows.error().code == ErrorCode::kBadArgument) {
    throw UsageError("--policy: " + rows.error().context);
  }
  if (!rows) throw Exception(rows.error());
  if (!options.json) {
    for (const auto& [name, value] : simulated.parameters.items()) {
      if (value.is_number()) std::printf("%-28s %.4g\n", name.c_str(), value.get<double>());
    }
    print_table(*rows);
    return kExitDone;
  }
  Json list = Json::array();
  for (const sim::TtftRow& row : *rows) list.push_back(to_json(row));
  print_json({{"rows", list}, {"machine", simulated.parameters}});
  return kExitDone;
}

}  // namespace

void add_simulate(CommandLine& app, Commands& commands) {
  auto options = std::make_shared<SimulateOptions>();
  CommandLine& command = app.add_subcommand(
      "simulate", "Time to the first token on modelled devices, policy by policy");
  const auto text = [&](const char* flag, std::string& value, const char* what, const char* type) {
    command.add_option(flag, value, what).show_default().type_name(type);
  };
  text("--machine", options->machine, "galaxy-s25plus, oneplus-12, this", "NAME");
  command
      .add_option("--model", options->shape,
                  "A shape: qwen3-0.6b (the default), exaone4-1.2b, llama3.2-1b, …")
      .type_name("NAME");
  command.add_option("-m", options->file, "With --machine this: a GGUF file instead of a shape")
      .type_name("FILE");
  text("--context", options->context, "Tokens in the context", "LIST");
  text("--remaining", options->remaining, "Percent that stays in memory", "LIST");
  text("--policy", options->policy, "Some of the policies; all where empty", "LIST");
  text("--prompt-tokens", options->prompt_tokens, "Tokens of the question", "N");
  options->common.add_to(command);
  command.add_flag("--json", options->json, "One JSON object on stdout");
  command.footer(
      "Example:\n  mzcache simulate --machine galaxy-s25plus --model qwen3-0.6b --context 8k "
      "--remaining 50\n"
      "  mzcache simulate --machine this -m models/SmolLM2-135M-Instruct.Q4_1.gguf --context 4k\n"
      "Without --machine this only policy.seed of the configuration counts. --trace writes the "
      "last row's restore, in virtual time.");
  commands.push_back({&command, [options] { return run(*options); }});
}

}  // namespace mzcache::tools
