// Commands that are promised and not built yet. They say so, and exit 1.
#include <string>

#include "command.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

void add_later_command(CLI::App& app, Commands& commands, const std::string& name,
                       const std::string& what, const std::string& example) {
  CLI::App* command = app.add_subcommand(name, what + " (not yet)");
  command->allow_extras();
  command->footer("Example:\n  mzcache " + example);
  commands.push_back({command, []() -> int { not_yet(""); }});
}

}  // namespace

void add_later(CLI::App& app, Commands& commands) {
  add_later_command(app, commands, "eval", "Measure quality", "eval perplexity -m model.gguf");
}

}  // namespace mzcache::tools
