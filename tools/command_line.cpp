#include "command_line.h"

#include <CLI/CLI.hpp>

#include "usage.h"

namespace mzcache::tools {

Option Option::type_name(std::string_view name) const {
  return Option(option_->type_name(std::string(name)));
}

Option Option::show_default() const { return Option(option_->capture_default_str()); }

Option Option::excludes(Option other) const { return Option(option_->excludes(other.option_)); }

bool Option::is(std::string_view name) const { return option_->check_name(std::string(name)); }

std::string Option::names() const { return option_->get_name(false, true); }

const std::vector<std::string>& Option::given() const { return option_->results(); }

CommandLine::CommandLine(std::string_view name, std::string_view description,
                         std::string_view version)
    : owned_(std::make_unique<CLI::App>(std::string(description), std::string(name))),
      app_(owned_.get()) {
  app_->set_version_flag("--version", std::string(version), "Print the version and exit");
}

CommandLine::CommandLine(CLI::App* app) : app_(app) {}

CommandLine::~CommandLine() = default;

CommandLine& CommandLine::add_subcommand(std::string_view name, std::string_view description) {
  CLI::App* app = app_->add_subcommand(std::string(name), std::string(description));
  subcommands_.emplace_back(new CommandLine(app));
  return *subcommands_.back();
}

Option CommandLine::add_option(std::string_view names, std::string& value,
                               std::string_view description) {
  return Option(app_->add_option(std::string(names), value, std::string(description)));
}

Option CommandLine::add_option(std::string_view names, std::vector<std::string>& values,
                               std::string_view description) {
  CLI::Option* option = app_->add_option(std::string(names), values, std::string(description));
  return Option(option->allow_extra_args(false));
}

void CommandLine::add_flag(std::string_view names, bool& value, std::string_view description) {
  app_->add_flag(std::string(names), value, std::string(description));
}

void CommandLine::footer(std::string_view text) { app_->footer(std::string(text)); }

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& asked) {  // --help, --version
    return app_->exit(asked);
  } catch (const CLI::ExtrasError& error) {  // "… was not expected: --bogus"
    throw UsageError(std::string(error.what()) + " (allowed: " + deepest_chosen().allowed() + ")");
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; see " + deepest_chosen().full_name() +
                     " --help");
  }
}

bool CommandLine::chosen() const { return app_->parsed(); }

const CommandLine& CommandLine::deepest_chosen() const {
  const auto chosen = app_->get_subcommands();
  for (const auto& subcommand : subcommands_) {
    if (!chosen.empty() && subcommand->app_ == chosen.front()) return subcommand->deepest_chosen();
  }
  return *this;
}

std::string CommandLine::full_name() const {
  std::string name = app_->get_name();
  for (const CLI::App* app = app_->get_parent(); app != nullptr; app = app->get_parent()) {
    name.insert(0, app->get_name() + " ");
  }
  return name;
}

std::string CommandLine::allowed() const {
  std::string list;
  const auto add = [&list](const std::string& name) {
    if (!list.empty()) list += ", ";
    list += name;
  };
  for (const auto& subcommand : subcommands_) add(subcommand->app_->get_name());
  if (!subcommands_.empty()) return list;
  for (const CLI::Option* option : app_->get_options()) add(option->get_name());
  return list;
}

std::optional<Option> CommandLine::find(std::string_view name) const {
  CLI::Option* option = app_->get_option_no_throw(std::string(name));
  return option == nullptr ? std::nullopt : std::optional(Option(option));
}

std::vector<Option> CommandLine::parse_order() const {
  return {app_->parse_order().begin(), app_->parse_order().end()};
}

}  // namespace mzcache::tools
