#include "token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace mzcache::tools {
namespace {

// Of the character that `text` begins with; 0 where that is not valid UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  const std::size_t bytes = first < 0x80                     ? 1
                            : first >= 0xC2 && first <= 0xDF ? 2
                            : first >= 0xE0 && first <= 0xEF ? 3
                            : first >= 0xF0 && first <= 0xF4 ? 4
                                                             : 0;
  if (bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  // Longer than need be, a surrogate, beyond the last character.
  const unsigned second = bytes > 2 ? byte(1) : 0x80;
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : bytes;
}

// "<0xE2>" at the beginning.
bool spells_escape(std::string_view text) {
  const auto digit = [&](std::size_t at) {
    return std::isxdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  return text.size() >= 6 && text.starts_with("<0x") && digit(3) && digit(4) && text[5] == '>';
}

// JSON has no infinity: what cannot be is null.
Json number(float logprob) { return std::isfinite(logprob) ? Json(logprob) : Json(nullptr); }

}  // namespace

std::string escaped_piece(const std::string& piece) {
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t bytes = character_bytes(std::string_view(piece).substr(at));
    if (bytes == 0 || spells_escape(std::string_view(piece).substr(at))) {
      text += fmt::format("<0x{:02X}>", static_cast<unsigned char>(piece[at]));
    } else {
      text.append(piece, at, bytes);
    }
    at += std::max<std::size_t>(bytes, 1);
  }
  return text;
}

std::string on_one_line(const std::string& piece) {
  std::string line;
  for (const char c : escaped_piece(piece)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", byte);
      line += escape;
    } else {
      line += c;
    }
  }
  return line;
}

Json to_json(const std::vector<TokenLogprob>& logprobs, const Model& model) {
  Json tokens = Json::array();
  for (const TokenLogprob& one : logprobs) {
    Json top = Json::array();
    for (const auto& candidate : one.top) {
      top.push_back({{"token", candidate.token},
                     {"text", escaped_piece(model.piece(candidate.token))},
                     {"logprob", number(candidate.logprob)}});
    }
    tokens.push_back({{"token", one.token},
                      {"text", escaped_piece(model.piece(one.token))},
                      {"logprob", number(one.logprob)},
                      {"top", std::move(top)}});
  }
  return tokens;
}

std::string logprob_lines(const std::vector<TokenLogprob>& logprobs, const Model& model) {
  std::string lines;
  for (const TokenLogprob& one : logprobs) {
    lines += fmt::format("{:9.4f}  '{}'", one.logprob, on_one_line(model.piece(one.token)));
    for (const auto& candidate : one.top) {
      lines += fmt::format("  {:.4f} '{}'", candidate.logprob,
                           on_one_line(model.piece(candidate.token)));
    }
    lines += '\n';
  }
  return lines;
}

}  // namespace mzcache::tools
