// The `mzcache` command: parses, runs one subcommand, turns what went wrong into one line and an
// exit status.
#include <cstdio>
#include <exception>
#include <string>

#include "command_line.h"
#include "commands/command.h"
#include "flag_names.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

void complain(const std::string& command, std::string message) {
  for (char& c : message) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", command.c_str(), message.c_str());
}

int run_chosen(const CommandLine& app, const Commands& commands) {
  for (const Command& command : commands) {
    if (command.line->chosen()) return command.run();
  }
  throw UsageError("a command is missing (allowed: " + app.deepest_chosen().allowed() + ")");
}

// What a flag set wrongly is a matter of usage, however late it was found out.
int complain_of(const CommandLine& command, Error error) {
  const std::string flag = flag_that_set(command, error.field);
  if (!flag.empty()) error.operation = flag;
  complain(command.full_name(), error.message());
  return flag.empty() ? kExitFailed : kExitUsage;
}

void add_commands(CommandLine& app, Commands& commands) {
  add_run(app, commands);
  add_chat(app, commands);
  add_inspect(app, commands);
  add_tokenize(app, commands);
  add_logits(app, commands);
  add_devices(app, commands);
  add_trace(app, commands);
  add_synth(app, commands);
  add_profile(app, commands);
  add_plan(app, commands);
  add_bench(app, commands);
  add_simulate(app, commands);
  add_eval(app, commands);
}

int main_guarded(int argc, char** argv) {
  CommandLine app("mzcache", "A language model whose memory can be taken away and given back.",
                  "mzcache " MZCACHE_VERSION);
  app.footer(
      "Example:\n  mzcache run -m models/SmolLM2-135M-Instruct.Q4_1.gguf -p 'Hello' -p 'And you?' "
      "--evict 50%");
  Commands commands;
  add_commands(app, commands);
  try {
    if (const auto done = app.parse(argc, argv)) return *done;
  } catch (const UsageError& error) {
    complain(app.deepest_chosen().full_name(), error.what());
    return kExitUsage;
  }
  const std::string name = app.deepest_chosen().full_name();
  try {
    const int status = run_chosen(app, commands);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      complain(name, "standard output: cannot be written, the result is lost (disk full?)");
      return kExitFailed;
    }
    return status;
  } catch (const UsageError& error) {
    complain(name, error.what());
    return kExitUsage;
  } catch (const Interrupted& error) {
    complain(name, error.what());
    return kExitInterrupted;
  } catch (const Exception& error) {
    return complain_of(app.deepest_chosen(), error.error());
  } catch (const std::exception& error) {
    complain(name, error.what());
    return kExitFailed;
  }
}

}  // namespace
}  // namespace mzcache::tools

int main(int argc, char** argv) {
  try {
    return mzcache::tools::main_guarded(argc, argv);
  } catch (...) {
    std::fputs("mzcache: failed\n", stderr);
    return mzcache::tools::kExitFailed;
  }
}
