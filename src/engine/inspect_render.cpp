// ModelInfo as text and as JSON.
#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/inspect.h"

namespace mzcache::engine {
namespace {

using Json = nlohmann::ordered_json;

std::string bytes_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return fmt::format("{} bytes ({:.3f} GB, {:.3f} GiB)", bytes, value / 1e9,
                     value / (1024.0 * 1024 * 1024));
}

// Names and keys come from the file: control characters would reach the terminal.
std::string printable(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return out.empty() ? "(none)" : out;
}

class Lines {
 public:
  template <class... Values>
  void add(std::string_view label, fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), "{:<16}", label);
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
    text_ += '\n';
  }
  void add_number(std::string_view label, const std::optional<std::uint64_t>& value) {
    if (value) add(label, "{}", *value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_units(Lines& lines, const ModelInfo& info) {
  if (!info.units) {
    lines.add("units", "none: {}", printable(info.units_absent));
    return;
  }
  const ModelInfo::Units& units = *info.units;
  lines.add("weight units", "{}, together {}", units.units.size(), bytes_text(units.weights_bytes));
  lines.add("KV chunk", "{} tokens of one layer, {}", units.chunk_tokens,
            bytes_text(units.kv_chunk_bytes));
  // Neighbours of one size share a line.
  for (std::size_t first = 0; first < units.units.size();) {
    std::size_t last = first;
    const ModelInfo::Unit& unit = units.units[first];
    while (last + 1 < units.units.size() && units.units[last + 1].kind == unit.kind &&
           units.units[last + 1].bytes == unit.bytes) {
      ++last;
    }
    if (unit.kind == "head") {
      lines.add("  head", "{}{}", bytes_text(unit.bytes),
                units.tied_head ? ", tied to the embedding" : "");
    } else if (first == last) {
      lines.add(fmt::format("  layer {}", unit.layer), "{}", bytes_text(unit.bytes));
    } else {
      lines.add(fmt::format("  layers {}-{}", unit.layer, units.units[last].layer), "{} each",
                bytes_text(unit.bytes));
    }
    first = last + 1;
  }
}

Json optional_json(const std::optional<std::uint64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json units_json(const ModelInfo::Units& units) {
  Json out;
  out["weights_bytes"] = units.weights_bytes;
  out["kv_chunk_bytes"] = units.kv_chunk_bytes;
  out["chunk_tokens"] = units.chunk_tokens;
  out["tied_head"] = units.tied_head;
  out["units"] = Json::array();
  for (const auto& unit : units.units) {
    out["units"].push_back({{"kind", unit.kind},
                            {"layer", unit.layer},
                            {"bytes", unit.bytes},
                            {"tensor_bytes", unit.tensor_bytes},
                            {"ranges", unit.ranges}});
  }
  return out;
}

}  // namespace

std::string inspect_text(const ModelInfo& info) {
  Lines lines;
  lines.add("file", "{}, {}, GGUF version {}", printable(info.file), bytes_text(info.file_bytes),
            info.gguf_version);
  lines.add("name", "{}", printable(info.name));
  lines.add("architecture", "{}", printable(info.architecture));
  lines.add("parameters", "{} ({:.1f} million)", info.parameters,
            static_cast<double>(info.parameters) / 1e6);
  lines.add_number("layers", info.sizes.layers);
  lines.add_number("hidden", info.sizes.hidden);
  lines.add_number("feed forward", info.sizes.feed_forward);
  lines.add_number("heads", info.sizes.heads);
  lines.add_number("KV heads", info.sizes.kv_heads);
  lines.add_number("head dimensions", info.sizes.head_dim);
  lines.add_number("vocabulary", info.sizes.vocabulary);
  lines.add_number("context length", info.sizes.context_length);
  lines.add("tensors", "{}, {}", info.tensors, bytes_text(info.tensor_bytes));
  for (const auto& use : info.tensor_types) {
    lines.add("  " + use.type, "{} tensors, {}", use.tensors, bytes_text(use.bytes));
  }
  const auto& tokenizer = info.tokenizer;
  lines.add("tokenizer", "{}, splitter {}, {} tokens, {} merges{}", printable(tokenizer.model),
            printable(tokenizer.pre), tokenizer.tokens, tokenizer.merges,
            tokenizer.chat_template ? ", with a chat template" : ", no chat template");
  lines.add_number("BOS", tokenizer.bos);
  lines.add_number("EOS", tokenizer.eos);
  if (info.kv_bytes_per_token) {
    lines.add("KV per token", "{} bytes ({:.1f} KiB)", *info.kv_bytes_per_token,
              static_cast<double>(*info.kv_bytes_per_token) / 1024);
  }
  add_units(lines, info);
  return lines.take();
}

std::string inspect_json(const ModelInfo& info) {
  Json out;
  out["file"] = info.file;
  out["file_bytes"] = info.file_bytes;
  out["gguf_version"] = info.gguf_version;
  out["name"] = info.name;
  out["architecture"] = info.architecture;
  out["parameters"] = info.parameters;
  out["sizes"] = {{"layers", optional_json(info.sizes.layers)},
                  {"hidden", optional_json(info.sizes.hidden)},
                  {"feed_forward", optional_json(info.sizes.feed_forward)},
                  {"heads", optional_json(info.sizes.heads)},
                  {"kv_heads", optional_json(info.sizes.kv_heads)},
                  {"head_dim", optional_json(info.sizes.head_dim)},
                  {"vocabulary", optional_json(info.sizes.vocabulary)},
                  {"context_length", optional_json(info.sizes.context_length)}};
  out["tensors"] = info.tensors;
  out["tensor_bytes"] = info.tensor_bytes;
  out["tensor_types"] = Json::array();
  for (const auto& use : info.tensor_types) {
    out["tensor_types"].push_back(
        {{"type", use.type}, {"tensors", use.tensors}, {"bytes", use.bytes}});
  }
  out["tokenizer"] = {{"model", info.tokenizer.model},
                      {"pre", info.tokenizer.pre},
                      {"tokens", info.tokenizer.tokens},
                      {"merges", info.tokenizer.merges},
                      {"bos", optional_json(info.tokenizer.bos)},
                      {"eos", optional_json(info.tokenizer.eos)},
                      {"chat_template", info.tokenizer.chat_template}};
  out["kv_bytes_per_token"] = optional_json(info.kv_bytes_per_token);
  out["units"] = info.units ? units_json(*info.units) : Json(nullptr);
  if (!info.units) out["units_absent"] = info.units_absent;
  // A file name need not be UTF-8.
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mzcache::engine
