// `mzcache inspect`: what a model file holds.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "command.h"
#include "mzcache/model_info.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct InspectOptions {
  CommonOptions common;
  std::string file;
  bool json = false;
};

std::string bytes_text(std::uint64_t bytes) {
  if (bytes == 0) return "? bytes";
  const auto value = static_cast<double>(bytes);
  if (bytes >= 100'000'000) {
    return fmt::format("{} bytes ({:.3f} GB, {:.3f} GiB)", bytes, value / 1e9,
                       value / (1024.0 * 1024 * 1024));
  }
  return fmt::format("{} bytes ({:.6f} GB, {:.6f} GiB)", bytes, value / 1e9,
                     value / (1024.0 * 1024 * 1024));
}

// Names come from the file: control characters would reach the terminal.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text.empty() ? "(none)" : text;
}

// What the file does not say.
std::string number_text(std::uint64_t number) { return number == 0 ? "?" : std::to_string(number); }

// Neighbours of one size share a line.
void print_units(const ModelInfo& info) {
  std::printf("units         %zu\n", info.units.size());
  for (std::size_t first = 0; first < info.units.size();) {
    const auto& unit = info.units[first];
    std::size_t end = first + 1;
    while (end < info.units.size() && info.units[end].bytes == unit.bytes &&
           info.units[end].window == unit.window) {
      ++end;
    }
    const std::string names =
        end - first == 1 ? unit.name : unit.name + " to " + info.units[end - 1].name;
    std::printf("  %-22s %s%s", names.c_str(), bytes_text(unit.bytes).c_str(),
                end - first == 1 ? "" : " each");
    if (unit.window > 0) std::printf(", window of %u tokens", unit.window);
    std::printf("\n");
    first = end;
  }
}

void print(const ModelInfo& info) {
  std::printf("file          %s (%s)\n", printable(info.file).c_str(),
              bytes_text(info.file_bytes).c_str());
  std::printf("name          %s\n", printable(info.name).c_str());
  std::printf("format        GGUF %u\n", info.gguf_version);
  std::printf("architecture  %s\n", printable(info.architecture).c_str());
  std::printf("parameters    %.1f million\n", static_cast<double>(info.parameters) / 1e6);
  std::printf("sizes         %s layers, hidden %s, feed-forward %s, %s/%s heads of %s\n",
              number_text(info.layers).c_str(), number_text(info.hidden).c_str(),
              number_text(info.feed_forward).c_str(), number_text(info.heads).c_str(),
              number_text(info.kv_heads).c_str(), number_text(info.head_dim).c_str());
  std::printf("vocabulary    %s, embeddings %s\n", number_text(info.vocabulary).c_str(),
              info.tied_embeddings ? "tied" : "untied");
  std::printf("context       %s tokens\n", number_text(info.context_length).c_str());
  std::printf("tokenizer     %s, splitter %s, %u tokens, chat template %s\n",
              printable(info.tokenizer_model).c_str(), printable(info.tokenizer_splitter).c_str(),
              info.tokenizer_tokens, printable(info.chat_template).c_str());
  std::printf("tensors\n");
  for (const auto& use : info.tensor_types) {
    std::printf("  %-12s %u, %s\n", use.type.c_str(), use.tensors, bytes_text(use.bytes).c_str());
  }
  std::printf("weights       %s\n", bytes_text(info.weights_bytes).c_str());
  if (!info.unsupported.empty()) {
    if (info.kv_bytes_per_token > 0) {
      std::printf("KV cache      %s per token\n", bytes_text(info.kv_bytes_per_token).c_str());
    }
    std::printf("not computed  %s\n", printable(info.unsupported).c_str());
    return;
  }
  std::printf("KV cache      %s per token, %s per chunk of 256 tokens and layer\n",
              bytes_text(info.kv_bytes_per_token).c_str(), bytes_text(info.chunk_bytes).c_str());
  print_units(info);
}

int run(const InspectOptions& options) {
  need("FILE", options.file, "a GGUF file");
  static_cast<void>(options.common.config());  // what is wrong in it is wrong here too
  const ModelInfo info = mzcache::inspect(options.file);
  if (options.json) {
    print_json(to_json(info));
  } else {
    print(info);
  }
  return kExitDone;
}

}  // namespace

void add_inspect(CommandLine& app, Commands& commands) {
  auto options = std::make_shared<InspectOptions>();
  CommandLine& command = app.add_subcommand("inspect", "Show what a model file holds");
  command.add_option("FILE", options->file, "GGUF file");
  options->common.add_without_timelines_to(command);
  command.add_flag("--json", options->json, "One JSON object on stdout");
  command.footer("Example:\n  mzcache inspect models/SmolLM2-135M-Instruct.Q4_1.gguf");
  commands.push_back({&command, [options] { return run(*options); }});
}

}  // namespace mzcache::tools
