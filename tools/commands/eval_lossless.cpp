// `mzcache eval lossless`: what codecs that change nothing save on a model's own keys and values, K
// and V apart.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "codec/lossless.h"
#include "commands/eval.h"
#include "commands/ttft/engine.h"
#include "engine/gguf.h"
#include "engine/tokenizer.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

using Method = codec::LosslessCodec::Method;

std::vector<Method> wanted_methods(const EvalOptions& options) {
  std::vector<Method> methods;
  for (const std::string& name : codec_list(options)) {
    bool known = false;
    for (const Method method : {Method::kZstd, Method::kLz4, Method::kSplitZstd}) {
      if (codec::LosslessCodec(method).name() != name) continue;
      methods.push_back(method);
      known = true;
    }
    if (!known) refuse("--codec", name, "zstd, lz4, split-zstd");
  }
  return methods;
}

std::vector<Token> first_tokens(const EvalOptions& options, std::uint32_t count) {
  const auto gguf = value_or_throw(engine::GgufFile::open(options.model));
  const auto tokenizer = value_or_throw(engine::Tokenizer::load(gguf));
  std::vector<Token> tokens = tokenizer->encode(read_text_file(options.text_file), {});
  if (tokens.size() < count) {
    throw UsageError("-f: " + options.text_file + " has " + std::to_string(tokens.size()) +
                     " tokens, --context wants " + std::to_string(count));
  }
  tokens.resize(count);
  return tokens;
}

// What one codec made of all full chunks.
struct Totals {
  explicit Totals(Method method) : codec(method) {}
  void add(const actors::ChunkView& chunk) {
    std::vector<std::byte> encoded(codec.bound(*chunk.layout, chunk.token_count));
    std::vector<std::byte> scratch(codec.scratch_bytes(*chunk.layout));
    encoded.resize(value_or_throw(codec.encode(chunk, encoded, scratch)));
    const auto streams = codec::LosslessCodec::stream_bytes(encoded);
    half += codec::valid_bytes(*chunk.layout, chunk.token_count) / 2;
    total += encoded.size();
    k += streams.k;
    v += streams.v;
  }
  codec::LosslessCodec codec;
  std::uint64_t half = 0;  // of FP16 in K, as in V
  std::uint64_t total = 0;
  std::uint64_t k = 0;
  std::uint64_t v = 0;
};

double saved_percent(std::uint64_t bytes, std::uint64_t of) {
  return 100 * (1 - static_cast<double>(bytes) / static_cast<double>(of));
}

int run_lossless(const EvalOptions& options) {
  need("-m", options.model, "a GGUF file");
  need("-f", options.text_file, "a text");
  const std::uint32_t context = tokens_value("--context", options.context, 1);
  std::vector<Totals> codecs;
  for (const Method method : wanted_methods(options)) codecs.emplace_back(method);
  Config config = eval_config(options, "");
  config.set("memory.free_out_of_window=false");
  TtftEngine engine(config, options.model);
  engine.compute(first_tokens(options, context));
  engine.each_chunk([&](const actors::ChunkView& chunk) {
    if (chunk.token_count < chunk.layout->tokens) return;
    for (Totals& codec : codecs) codec.add(chunk);
  });
  if (codecs.front().half == 0) refuse("--context", options.context, "at least one full chunk");
  Json list = Json::array();
  if (!options.json) std::printf("%-14s %8s %8s %8s\n", "codec", "saved %", "of K %", "of V %");
  for (const Totals& codec : codecs) {
    const std::string name(codec.codec.name());
    const double saved = saved_percent(codec.total, 2 * codec.half);
    const double k = saved_percent(codec.k, codec.half);
    const double v = saved_percent(codec.v, codec.half);
    list.push_back({{"codec", name},
                    {"saved_percent", saved},
                    {"saved_k_percent", k},
                    {"saved_v_percent", v}});
    if (!options.json) std::printf("%-14s %8.2f %8.2f %8.2f\n", name.c_str(), saved, k, v);
  }
  if (options.json) print_json({{"rows", list}});
  return kExitDone;
}

}  // namespace

void add_eval_lossless(CommandLine& group, Commands& commands) {
  CommandLine& command =
      group.add_subcommand("lossless", "What lossless codecs save of the model's keys and values");
  auto options = add_eval_common(command);
  options->codecs = "zstd,lz4,split-zstd";
  options->context = "3072";
  command.add_option("--codec", options->codecs, "Names, separated by commas")
      .show_default()
      .type_name("LIST");
  command.add_option("--context", options->context, "Tokens; full chunks of them count")
      .show_default()
      .type_name("N");
  command.footer(
      "Example:\n  mzcache eval lossless -m models/SmolLM2-135M-Instruct.Q4_1.gguf "
      "-f texts/prose.txt");
  commands.push_back({&command, [options] { return run_lossless(*options); }});
}

}  // namespace mzcache::tools
