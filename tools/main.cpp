// The `mzcache` command: parses, runs one subcommand, turns what went wrong into one line and an
// exit status.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "commands/command.h"
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

// "mzcache bench mailbox": the deepest subcommand that was named.
const CLI::App* asked_for(const CLI::App& app) {
  const CLI::App* deepest = &app;
  for (;;) {
    const auto chosen = deepest->get_subcommands();
    if (chosen.empty()) return deepest;
    deepest = chosen.front();
  }
}

std::string full_name(const CLI::App* app) {
  const CLI::App* parent = app->get_parent();
  return parent == nullptr ? std::string("mzcache") : full_name(parent) + " " + app->get_name();
}

// "--model, --prompt, …", or the commands where `app` only groups them.
std::string names_in(const CLI::App& app) {
  std::string list;
  const auto add = [&list](const std::string& name) {
    if (!list.empty()) list += ", ";
    list += name;
  };
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* command : commands) add(command->get_name());
  if (!commands.empty()) return list;
  for (const CLI::Option* option : app.get_options()) add(option->get_name());
  return list;
}

int run_chosen(const CLI::App& app, const Commands& commands) {
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  throw UsageError("a command is missing (allowed: " + names_in(*asked_for(app)) + ")");
}

void add_commands(CLI::App& app, Commands& commands) {
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
  add_later(app, commands);
}

int main_guarded(int argc, char** argv) {
  CLI::App app("A language model whose memory can be taken away and given back.", "mzcache");
  app.footer(
      "Example:\n  mzcache run -m models/SmolLM2-135M-Instruct.Q4_1.gguf -p 'Hello' -p 'And you?' "
      "--evict 50%");
  app.set_version_flag("--version", "mzcache " MZCACHE_VERSION, "Print the version and exit");
  Commands commands;
  add_commands(app, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ExtrasError& error) {  // "… was not expected: --bogus"
    const CLI::App* deepest = asked_for(app);
    complain(full_name(deepest),
             std::string(error.what()) + " (allowed: " + names_in(*deepest) + ")");
    return kExitUsage;
  } catch (const CLI::ParseError& error) {
    const std::string name = full_name(asked_for(app));
    complain(name, std::string(error.what()) + "; see " + name + " --help");
    return kExitUsage;
  }
  const std::string name = full_name(asked_for(app));
  try {
    return run_chosen(app, commands);
  } catch (const UsageError& error) {
    complain(name, error.what());
    return kExitUsage;
  } catch (const Interrupted& error) {
    complain(name, error.what());
    return kExitInterrupted;
  } catch (const Exception& error) {
    complain(name, error.error().message());
    return kExitFailed;
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
