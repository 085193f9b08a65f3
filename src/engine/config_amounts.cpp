#include "engine/config_amounts.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace mzcache {
namespace {

constexpr std::string_view kSizeForms = "512MiB, 1.5GiB, 300MB or plain bytes";

Error refused(std::string_view text, std::string_view allowed) {
  return Error{
      ErrorCode::kBadArgument, 0, "",
      "'" + std::string(text) + "' is not allowed (allowed: " + std::string(allowed) + ")"};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// A number without sign or exponent, and what follows it.
struct Number {
  double value = 0;
  bool whole = true;        // no decimal point
  std::uint64_t exact = 0;  // where `whole`
  std::string_view suffix;
};

std::optional<Number> split_number(std::string_view text) {
  text = trimmed(text);
  const std::size_t end = text.find_first_not_of("0123456789.");
  const std::string_view digits = text.substr(0, end);
  if (digits.empty() || digits.front() == '.' || digits.back() == '.') return std::nullopt;
  Number number;
  number.whole = digits.find('.') == std::string_view::npos;
  const char* last = digits.data() + digits.size();
  auto read = std::from_chars(digits.data(), last, number.value, std::chars_format::fixed);
  if (read.ec != std::errc() || read.ptr != last) return std::nullopt;
  if (number.whole) {
    auto exact = std::from_chars(digits.data(), last, number.exact);
    if (exact.ec != std::errc()) return std::nullopt;
  }
  number.suffix = end == std::string_view::npos ? std::string_view{} : trimmed(text.substr(end));
  return number;
}

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<Unit, 11> kUnits = {{{"B", 1},
                                          {"KiB", 1ULL << 10},
                                          {"MiB", 1ULL << 20},
                                          {"GiB", 1ULL << 30},
                                          {"TiB", 1ULL << 40},
                                          {"kB", 1000ULL},
                                          {"KB", 1000ULL},
                                          {"MB", 1000ULL * 1000},
                                          {"GB", 1000ULL * 1000 * 1000},
                                          {"TB", 1000ULL * 1000 * 1000 * 1000},
                                          {"", 1}}};

std::optional<std::uint64_t> unit_bytes(std::string_view name) {
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return unit.bytes;
  }
  return std::nullopt;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  const auto number = split_number(text);
  if (!number) return refused(text, kSizeForms);
  const auto unit = unit_bytes(number->suffix);
  if (!unit) return refused(text, kSizeForms);
  if (number->whole) {
    if (number->exact > std::numeric_limits<std::uint64_t>::max() / *unit) {
      return refused(text, "less than 16 EiB");
    }
    return number->exact * *unit;
  }
  if (*unit == 1) return refused(text, kSizeForms);  // no half bytes
  const double bytes = std::floor(number->value * static_cast<double>(*unit));
  if (bytes >= 9.2e18) return refused(text, "less than 8 EiB");
  return static_cast<std::uint64_t>(bytes);
}

Result<std::uint32_t> parse_tokens(std::string_view text) {
  constexpr std::string_view kForms = "a count such as 3000 or 8k (k = 1024), below 2^31";
  const auto number = split_number(text);
  if (!number || !number->whole) return refused(text, kForms);
  const bool kilo = number->suffix == "k" || number->suffix == "K";
  if (!kilo && !number->suffix.empty()) return refused(text, kForms);
  const std::uint64_t factor = kilo ? 1024 : 1;
  constexpr std::uint64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (number->exact > kMax / factor) return refused(text, kForms);
  return static_cast<std::uint32_t>(number->exact * factor);
}

Result<Amount> parse_amount(std::string_view text) {
  Amount amount;
  if (trimmed(text) == "none") return amount;
  if (text.find('%') != std::string_view::npos) {
    auto percent = engine::parse_percent(text, 100);
    if (!percent) return std::move(percent).error();
    amount.percent = *percent;
    return amount;
  }
  auto bytes = parse_size(text);
  if (!bytes) {
    return refused(
        text, "none, a share of the footprint such as 50%, or a size: " + std::string(kSizeForms));
  }
  amount.bytes = *bytes;
  return amount;
}

namespace engine {

Result<double> parse_seconds(std::string_view text) {
  constexpr std::string_view kForms = "a time such as \"2s\" or \"500ms\", at most a day";
  const auto number = split_number(text);
  if (!number) return refused(text, kForms);
  double seconds = number->value;
  if (number->suffix == "ms") {
    seconds /= 1000;
  } else if (number->suffix != "s") {
    return refused(text, kForms);
  }
  if (seconds > 86400) return refused(text, kForms);
  return seconds;
}

Result<std::uint64_t> parse_rate(std::string_view text) {
  constexpr std::string_view kForms = "a rate such as \"400MiB/s\", or \"\" for none";
  const std::string_view rate = trimmed(text);
  if (rate.empty()) return std::uint64_t{0};
  if (!rate.ends_with("/s")) return refused(text, kForms);
  auto bytes = parse_size(rate.substr(0, rate.size() - 2));
  if (!bytes || *bytes == 0) return refused(text, kForms);
  return bytes;
}

Result<double> parse_percent(std::string_view text, double max) {
  const auto number = split_number(text);
  if (!number || number->suffix != "%" || number->value > max) {
    return refused(text, "a percentage from 0% to " + std::to_string(static_cast<int>(max)) + "%");
  }
  return number->value;
}

}  // namespace engine
}  // namespace mzcache
