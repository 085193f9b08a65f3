// One file per command. Each adds its subcommand with flags and an example, and hands back what to
// run when it was the one asked for.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

namespace mzcache::tools {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // the exit status; throws as usage.h says
};
using Commands = std::vector<Command>;

void add_run(CLI::App& app, Commands& commands);
void add_chat(CLI::App& app, Commands& commands);
void add_inspect(CLI::App& app, Commands& commands);
void add_tokenize(CLI::App& app, Commands& commands);
void add_logits(CLI::App& app, Commands& commands);
void add_devices(CLI::App& app, Commands& commands);
void add_trace(CLI::App& app, Commands& commands);
void add_synth(CLI::App& app, Commands& commands);
void add_profile(CLI::App& app, Commands& commands);
void add_plan(CLI::App& app, Commands& commands);
void add_bench(CLI::App& app, Commands& commands);
void add_bench_evict(CLI::App& group, Commands& commands);
// Commands that are promised and not built yet: they say so and exit 1.
void add_simulate(CLI::App& app, Commands& commands);
void add_later(CLI::App& app, Commands& commands);

}  // namespace mzcache::tools
