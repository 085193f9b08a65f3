#include "usage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

namespace mzcache::tools {
namespace {

constexpr std::string_view kTokenForms =
    "ids such as 1,2,3, or @FILE with ids or {\"tokens\": […]}";

std::string plain(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  return nlohmann::json(value).dump();
}

std::vector<Token> tokens_of_json(std::string_view flag, const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto& list = json.is_object() && json.contains("tokens") ? json["tokens"] : json;
  if (!list.is_array()) refuse(flag, text.substr(0, 40), kTokenForms);
  std::vector<Token> tokens;
  for (const auto& entry : list) {
    if (!entry.is_number_integer()) refuse(flag, entry.dump(), kTokenForms);
    const auto id = entry.get<std::int64_t>();
    if (id < 0 || id > std::numeric_limits<Token>::max()) refuse(flag, entry.dump(), kTokenForms);
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

std::vector<Token> tokens_of_text(std::string_view flag, std::string_view text) {
  constexpr std::string_view kBetween = ", \t\r\n";
  std::vector<Token> tokens;
  for (std::size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;
       at = text.find_first_not_of(kBetween, at)) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    Token id = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), id);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size() || id < 0) {
      refuse(flag, word.substr(0, 40), kTokenForms);
    }
    tokens.push_back(id);
    at = end;
  }
  return tokens;
}

[[noreturn]] void fail_io(const char* operation, const std::string& path, const char* hint) {
  const int native = errno;
  throw Exception(Error{.code = native == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                        .native = native,
                        .operation = operation,
                        .context = path,
                        .hint = hint});
}
[[noreturn]] void fail_read(const std::string& path) {
  fail_io("read", path, "give a file that is there and can be read");
}
[[noreturn]] void fail_write(const std::string& path) {
  fail_io("write", path,
          errno == ENOSPC ? "free some of the disk or choose another place"
                          : "choose a file in a folder that is there and can be written to");
}

void write_all(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_write(path);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

// There, and no regular file: a pipe, a terminal, a folder.
bool is_special(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

// Closed, and unlinked unless it was kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& beside)
      : path_(beside + ".tmp." + std::to_string(::getpid())) {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file_ < 0) fail_write(beside);
  }
  ~TemporaryFile() {
    if (file_ >= 0) ::close(file_);
    if (!kept_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] int file() const { return file_; }
  void rename_to(const std::string& path) {
    const int closed = ::close(file_);
    file_ = -1;
    if (closed != 0 || ::rename(path_.c_str(), path.c_str()) != 0) fail_write(path);
    kept_ = true;
  }

 private:
  std::string path_;
  int file_ = -1;
  bool kept_ = false;
};

}  // namespace

void refuse(std::string_view flag, std::string_view value, std::string_view allowed) {
  throw UsageError(std::string(flag) + ": '" + std::string(value) +
                   "' is not allowed (allowed: " + std::string(allowed) + ")");
}

void need(std::string_view flag, const std::string& value, std::string_view what) {
  if (value.empty()) throw UsageError(std::string(flag) + ": missing; give " + std::string(what));
}

double number_value(std::string_view flag, const std::string& text, double min, double max) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!whole || !std::isfinite(value) || value < min || value > max) {
    refuse(flag, text, "a number from " + plain(min) + " to " + plain(max));
  }
  return value;
}

std::int64_t integer_value(std::string_view flag, const std::string& text, std::int64_t min,
                           std::int64_t max) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!whole || value < min || value > max) {
    refuse(flag, text, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return value;
}

std::string choice_value(std::string_view flag, const std::string& text,
                         std::initializer_list<std::string_view> choices) {
  std::string allowed;
  for (const std::string_view choice : choices) {
    if (choice == text) return text;
    allowed += (allowed.empty() ? "" : ", ") + std::string(choice);
  }
  refuse(flag, text, allowed);
}

std::uint32_t tokens_value(std::string_view flag, const std::string& text, std::uint32_t min) {
  const std::uint32_t count = checked(flag, parse_tokens(text));
  if (count < min) refuse(flag, text, "a count from " + std::to_string(min));
  return count;
}

Amount amount_value(std::string_view flag, const std::string& text) {
  return checked(flag, parse_amount(text));
}

std::vector<Token> token_list(std::string_view flag, const std::string& text) {
  const bool file = !text.empty() && text.front() == '@';
  const std::string list = file ? read_text_file(text.substr(1)) : text;
  const std::size_t first = list.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && (list[first] == '{' || list[first] == '[');
  auto tokens = json ? tokens_of_json(flag, list) : tokens_of_text(flag, list);
  if (tokens.empty()) refuse(flag, text, "at least one id: " + std::string(kTokenForms));
  return tokens;
}

void check_ids(std::string_view flag, const std::vector<Token>& ids, std::uint32_t vocabulary) {
  if (vocabulary == 0) return;
  for (const Token id : ids) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < vocabulary) continue;
    refuse(flag, std::to_string(id),
           "ids of the model's " + std::to_string(vocabulary) + " tokens, 0 to " +
               std::to_string(vocabulary - 1));
  }
}

std::string read_text_file(const std::string& path) {
  const bool standard_input = path == "-";
  const int file = standard_input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_read(path);
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t count = ::read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int native = errno;
      if (!standard_input) ::close(file);
      errno = native;
      fail_read(path);
    }
    if (count == 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  if (!standard_input) ::close(file);
  return text;
}

void write_file(const std::string& path, std::string_view bytes) {
  if (path == "-") return write_all(STDOUT_FILENO, bytes, "standard output");
  if (is_special(path)) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) fail_write(path);
    write_all(file, bytes, path);
    ::close(file);
    return;
  }
  TemporaryFile temporary(path);
  write_all(temporary.file(), bytes, path);
  temporary.rename_to(path);
}

void check_can_write(const std::string& path) {
  if (path == "-") return;
  // Opening a pipe would wait for its reader: that is for write_file() to do.
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) errno = EISDIR;
    if (S_ISDIR(status.st_mode) || ::access(path.c_str(), W_OK) != 0) fail_write(path);
    if (!S_ISREG(status.st_mode)) return;
  }
  const TemporaryFile made(path);
}

}  // namespace mzcache::tools
