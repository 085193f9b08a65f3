// One file per command. Each adds its subcommand with flags and an example, and hands back what to
// run when it was the one asked for.
#pragma once

#include <functional>
#include <vector>

#include "command_line.h"

namespace mzcache::tools {

struct Command {
  const CommandLine* line = nullptr;
  std::function<int()> run;  // the exit status; throws as usage.h says
};
using Commands = std::vector<Command>;

void add_run(CommandLine& app, Commands& commands);
void add_chat(CommandLine& app, Commands& commands);
void add_inspect(CommandLine& app, Commands& commands);
void add_tokenize(CommandLine& app, Commands& commands);
void add_logits(CommandLine& app, Commands& commands);
void add_devices(CommandLine& app, Commands& commands);
void add_trace(CommandLine& app, Commands& commands);
void add_synth(CommandLine& app, Commands& commands);
void add_profile(CommandLine& app, Commands& commands);
void add_plan(CommandLine& app, Commands& commands);
void add_bench(CommandLine& app, Commands& commands);
void add_bench_evict(CommandLine& group, Commands& commands);
void add_bench_codec(CommandLine& group, Commands& commands);
void add_bench_ttft(CommandLine& group, Commands& commands);
void add_bench_storage(CommandLine& group, Commands& commands);
void add_bench_memory(CommandLine& group, Commands& commands);
void add_bench_compute(CommandLine& group, Commands& commands);
void add_simulate(CommandLine& app, Commands& commands);
void add_eval(CommandLine& app, Commands& commands);

}  // namespace mzcache::tools
