// How fast text becomes ids: ordinary English, and lines of 1 MB that are hard to cut into words.
// And what a grammar costs per token of an answer.
//
//   tokenizer_bench [benchmark flags] VOCABULARY.gguf… [TEXT…]
//
// Without TEXT the licences that every Debian has are read, each once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.h"
#include "engine/grammar_constraint.h"
#include "engine/tokenizer.h"
#include "mzcache/grammar.h"

namespace {

using namespace mzcache;
using engine::Tokenizer;

constexpr std::size_t kLineBytes = 1'000'000;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string licences() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/share/common-licenses")) {
    if (!entry.is_symlink()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& path : paths) text += read_file(path);
  return text;
}

std::string line_of(std::string_view part) {
  std::string line;
  line.reserve(kLineBytes + part.size());
  while (line.size() < kLineBytes) line += part;
  return line;
}

void encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  std::size_t tokens = 0;
  for ([[maybe_unused]] auto _ : state) tokens = tokenizer.encode(text, {}).size();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
  state.counters["bytes_per_token"] =
      static_cast<double>(text.size()) / static_cast<double>(std::max<std::size_t>(tokens, 1));
}

std::string json_text() {
  std::string text = "{\"people\": [";
  for (int i = 0; i < 12; ++i) {
    text += i == 0 ? "" : ", ";
    text += "{\"name\": \"Ada number " + std::to_string(i) +
            "\", \"age\": " + std::to_string(20 + i) +
            ", \"tags\": [\"first\", \"\\u00e9t\u00e9\", null, true], \"at\": {\"x\": -1.5, \"y\": "
            "2e3}}";
  }
  return text + "]}";
}

// All masks of an answer that is this JSON; nothing is kept from one answer to the next.
void follow_json(benchmark::State& state, const Tokenizer& tokenizer) {
  const auto grammar = value_or_throw(engine::Grammar::parse(json_grammar()));
  const auto index = std::make_shared<const engine::TokenIndex>(tokenizer);
  const auto tokens = tokenizer.encode(json_text(), {.add_bos = false, .starts = false});
  for ([[maybe_unused]] auto _ : state) {
    engine::GrammarConstraint constraint(grammar, index);
    for (const engine::Token token : tokens) {
      const auto allowed = constraint.allowed();
      const auto at = static_cast<std::size_t>(token);
      if ((allowed[at / 64] >> (at % 64) & 1U) == 0) state.SkipWithError("token not allowed");
      constraint.accept(token);
    }
    if (!constraint.complete()) state.SkipWithError("not complete");
  }
  state.counters["per_token"] = benchmark::Counter(
      static_cast<double>(tokens.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void index_vocabulary(benchmark::State& state, const Tokenizer& tokenizer) {
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(engine::TokenIndex(tokenizer).entries().size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::pair<std::string, std::shared_ptr<const Tokenizer>>> tokenizers;
  std::string text;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path = argv[i];
    if (path.extension() != ".gguf") {
      text += read_file(path);
      continue;
    }
    const auto file = value_or_throw(engine::GgufFile::open(path));
    tokenizers.emplace_back(path.stem(), value_or_throw(Tokenizer::load(file)));
  }
  if (tokenizers.empty()) {
    std::fputs("tokenizer_bench: needs a VOCABULARY.gguf\n", stderr);
    return 2;
  }
  if (text.empty()) text = licences();
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"english", text},
      {"letter", line_of("a")},
      {"spaces", line_of(" ")},
      {"newlines", line_of("\n")},
      {"digits", line_of("7")},
      {"emoji", line_of("\U0001F600")},
      {"families", line_of("\U0001F468\u200D\U0001F469\u200D\U0001F467 ")},
      {"han", line_of("\u4E16\u754C\u4F60\u597D\u5929\u6C14")},
      {"tags", line_of("<|im_start")},
  };
  for (const auto& [name, tokenizer] : tokenizers) {
    for (const auto& [kind, line] : texts) {
      std::string label = name;
      label.append("/").append(kind);
      benchmark::RegisterBenchmark(label.c_str(), [&, t = tokenizer](benchmark::State& s) {
        encode(s, *t, line);
      })->Unit(benchmark::kMillisecond);
    }
  }
  for (const auto& [name, tokenizer] : tokenizers) {
    benchmark::RegisterBenchmark((name + "/index").c_str(), [t = tokenizer](benchmark::State& s) {
      index_vocabulary(s, *t);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark((name + "/json").c_str(), [t = tokenizer](benchmark::State& s) {
      follow_json(s, *t);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
