// What every command shares on its way in: values of flags checked with errors that name the flag
// and what is allowed, and the errors that decide the exit status.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mzcache/config.h"
#include "mzcache/errors.h"
#include "mzcache/reports.h"

namespace mzcache::tools {

constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitInterrupted = 130;

// A flag that is wrong: exit 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// Ctrl-C or SIGTERM: exit 130.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

[[noreturn]] void refuse(std::string_view flag, std::string_view value, std::string_view allowed);
// A flag without which the command cannot do anything.
void need(std::string_view flag, const std::string& value, std::string_view what);

// The value, or a UsageError that begins with the flag.
template <class T>
T checked(std::string_view flag, Result<T> result) {
  if (!result) throw UsageError(std::string(flag) + ": " + result.error().message());
  return std::move(result).value();
}

[[nodiscard]] double number_value(std::string_view flag, const std::string& text, double min,
                                  double max);
[[nodiscard]] std::int64_t integer_value(std::string_view flag, const std::string& text,
                                         std::int64_t min, std::int64_t max);
[[nodiscard]] std::string choice_value(std::string_view flag, const std::string& text,
                                       std::initializer_list<std::string_view> choices);
[[nodiscard]] std::uint32_t tokens_value(std::string_view flag, const std::string& text,
                                         std::uint32_t min);
[[nodiscard]] Amount amount_value(std::string_view flag, const std::string& text);
// "1,2,3", or "@FILE" ("@-": standard input) holding the same, a JSON array, or what
// `tokenize --json` prints.
[[nodiscard]] std::vector<Token> token_list(std::string_view flag, const std::string& text);

// Ids of another vocabulary: UsageError. 0 tokens: not known, all are let through.
void check_ids(std::string_view flag, const std::vector<Token>& ids, std::uint32_t vocabulary);

// Whole contents; "-" is standard input. Throws Exception that names the file.
[[nodiscard]] std::string read_text_file(const std::string& path);
// Written beside `path` and renamed, so that no half file is ever there. Special files (a pipe, a
// terminal) are written to as they are.
// "-" is standard output.
void write_file(const std::string& path, std::string_view bytes);
// Before the work whose result goes there: throws as write_file() would, and leaves nothing behind.
void check_can_write(const std::string& path);

}  // namespace mzcache::tools
