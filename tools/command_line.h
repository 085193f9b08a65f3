// Subcommands and their flags: what each one fills, what was given, what was wrong. The only file
// that knows CLI11, whose header takes longer to compile than any command does.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): theirs
class App;
class Option;
}  // namespace CLI

namespace mzcache::tools {

// A flag or an argument of a command, in whose CommandLine it lives.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // What the help shows for the value: FILE, N, ….
  Option type_name(std::string_view name) const;
  // The help shows the value that the variable has now.
  Option show_default() const;
  // Refused beside `other`.
  Option excludes(Option other) const;

  // "-p" or "--prompt".
  [[nodiscard]] bool is(std::string_view name) const;
  // "-p,--prompt".
  [[nodiscard]] std::string names() const;
  // What was given for it, empty where it was not.
  [[nodiscard]] const std::vector<std::string>& given() const;

 private:
  CLI::Option* option_;
};

// A command: the program itself, or a subcommand of another.
class CommandLine {
 public:
  CommandLine(std::string_view name, std::string_view description, std::string_view version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Lives as long as this one.
  CommandLine& add_subcommand(std::string_view name, std::string_view description);
  // `names` are separated by commas; one without dashes is given by its place. The variable is to
  // outlive parse().
  Option add_option(std::string_view names, std::string& value, std::string_view description);
  // One value each time it is given.
  Option add_option(std::string_view names, std::vector<std::string>& values,
                    std::string_view description);
  void add_flag(std::string_view names, bool& value, std::string_view description);
  // The end of the help.
  void footer(std::string_view text);

  // Of the program: fills the variables. The exit status where nothing is left to do (--help,
  // --version). UsageError for what it cannot take.
  [[nodiscard]] std::optional<int> parse(int argc, char** argv);

  [[nodiscard]] bool chosen() const;
  // The deepest subcommand that was chosen.
  [[nodiscard]] const CommandLine& deepest_chosen() const;
  // "mzcache bench mailbox".
  [[nodiscard]] std::string full_name() const;
  // "--model, --prompt, …", or the subcommands where this only groups them.
  [[nodiscard]] std::string allowed() const;
  [[nodiscard]] std::optional<Option> find(std::string_view name) const;
  // As they were written; one that was given twice is there twice.
  [[nodiscard]] std::vector<Option> parse_order() const;

 private:
  explicit CommandLine(CLI::App* app);

  std::unique_ptr<CLI::App> owned_;  // of the program only
  CLI::App* app_;
  std::vector<std::unique_ptr<CommandLine>> subcommands_;
};

}  // namespace mzcache::tools
