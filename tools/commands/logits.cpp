// `mzcache logits`: the raw output of the model for given tokens, with evictions in between.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client.h"
#include "command.h"
#include "mzcache/runtime.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct LogitsOptions {
  CommonOptions common;
  std::string model;
  std::string tokens;
  std::string positions = "-1";
  std::string output;
  std::vector<std::string> evictions;
  std::vector<std::string> at;
  std::string batch = "512";
  std::string context;
  std::string codec;
  std::string order;
  bool json = false;
};

// Where the prefill is split, and what is evicted there.
struct Split {
  std::uint32_t at = 0;
  std::vector<Amount> evictions;
};

// "--evict A --at K": amounts belong to the --at after them (or, at the end, to the last one).
std::vector<Split> collect_splits(const CommandLine& app, const LogitsOptions& options,
                                  std::size_t tokens) {
  std::vector<Split> splits;
  std::vector<Amount> pending;
  std::size_t eviction = 0;
  std::size_t at = 0;
  for (const Option option : app.parse_order()) {
    if (option.is("--evict")) {
      pending.push_back(amount_value("--evict", options.evictions.at(eviction++)));
    } else if (option.is("--at")) {
      const std::string& text = options.at.at(at++);
      Split split{tokens_value("--at", text, 1), std::move(pending)};
      pending.clear();
      if (split.at >= tokens) {
        refuse("--at", text, "below the number of tokens, " + std::to_string(tokens));
      }
      if (!splits.empty() && split.at <= splits.back().at) {
        refuse("--at", text, "above the --at before it");
      }
      splits.push_back(std::move(split));
    }
  }
  if (!pending.empty() && splits.empty()) throw UsageError("--evict: needs --at K");
  if (!pending.empty()) {
    auto& last = splits.back().evictions;
    last.insert(last.end(), pending.begin(), pending.end());
  }
  return splits;
}

// "0,5,-1": from the front, or from the back where negative.
std::vector<std::uint32_t> parse_positions(const std::string& text, std::size_t tokens) {
  std::vector<std::uint32_t> positions;
  const auto count = static_cast<std::int64_t>(tokens);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::int64_t position = integer_value("--positions", word, -count, count - 1);
    positions.push_back(static_cast<std::uint32_t>(position < 0 ? position + count : position));
    begin = end + 1;
  }
  return positions;
}

struct Evaluation {
  std::uint32_t vocabulary = 0;
  std::vector<float> rows;  // in the order the positions were asked for
  std::vector<EvictReport> evictions;
  std::vector<RestoreReport> restores;
};

// One stretch of the prefill; its rows go to the places of the positions inside it.
void evaluate_segment(Client& client, Session session, std::span<const Token> tokens,
                      std::uint32_t begin, std::uint32_t slice,
                      const std::vector<std::uint32_t>& positions, Evaluation& evaluation) {
  Evaluate message{session, {tokens.begin(), tokens.end()}, {}, slice};
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < positions.size(); ++row) {
    if (positions[row] < begin || positions[row] - begin >= tokens.size()) continue;
    message.positions.push_back(positions[row] - begin);
    rows.push_back(row);
  }
  const LogitRows report = client.ask(std::move(message));
  evaluation.restores.push_back(report.restore);
  if (rows.empty()) return;
  const std::size_t width = report.vocabulary;
  if (width == 0 || report.values.size() != rows.size() * width) {
    throw Exception(Error{ErrorCode::kInternal, 0, "logits", "rows are missing"});
  }
  evaluation.vocabulary = report.vocabulary;
  evaluation.rows.resize(positions.size() * width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(report.values.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                evaluation.rows.begin() + static_cast<std::ptrdiff_t>(rows[i] * width));
  }
}

Evaluation evaluate(Client& client, Session session, const std::vector<Token>& tokens,
                    const std::vector<Split>& splits, std::uint32_t slice,
                    const std::vector<std::uint32_t>& positions) {
  Evaluation evaluation;
  const std::span<const Token> all(tokens);
  std::uint32_t begin = 0;
  for (const Split& split : splits) {
    evaluate_segment(client, session, all.subspan(begin, split.at - begin), begin, slice, positions,
                     evaluation);
    for (const Amount& amount : split.evictions) {
      evaluation.evictions.push_back(client.ask(Evict{amount}));
    }
    begin = split.at;
  }
  evaluate_segment(client, session, all.subspan(begin), begin, slice, positions, evaluation);
  return evaluation;
}

void write_rows(const std::string& path, const std::vector<float>& rows) {
  std::string bytes;
  bytes.reserve(rows.size() * sizeof(float));
  for (const float value : rows) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>(bits >> shift));
    }
  }
  write_file(path, bytes);
}

Config make_config(const LogitsOptions& options) {
  Config config = options.common.config();
  if (!options.codec.empty()) {
    set_from_flag(config, "--codec", "memory.codec", options.codec);
    config.set("memory.storage_codec=none");
  }
  if (!options.order.empty()) set_from_flag(config, "--order", "policy.order", options.order);
  // A reference for other programs: float unless told otherwise.
  if (config.device.activations == "auto") config.device.activations = "float";
  return config;
}

void report(const LogitsOptions& options, const std::vector<std::uint32_t>& positions,
            std::size_t tokens, const Evaluation& evaluation) {
  if (!options.json) {
    std::fprintf(stderr, "[%zu rows of %u values after %zu tokens: %s]\n", positions.size(),
                 evaluation.vocabulary, tokens,
                 options.output == "-" ? "standard output" : options.output.c_str());
    return;
  }
  Json evictions = Json::array();
  for (const EvictReport& eviction : evaluation.evictions) evictions.push_back(to_json(eviction));
  Json restores = Json::array();
  for (const RestoreReport& restore : evaluation.restores) restores.push_back(to_json(restore));
  print_json({{"file", options.output},
              {"tokens", tokens},
              {"positions", positions},
              {"vocabulary", evaluation.vocabulary},
              {"evictions", evictions},
              {"restores", restores}});
}

int run(const CommandLine& app, const LogitsOptions& options) {
  need("-m", options.model, "a GGUF file");
  need("--tokens", options.tokens, "ids such as 1,2,3, or @FILE");
  need("-o", options.output, "the file to write, - for standard output");
  if (options.output == "-" && options.json) {
    refuse("-o", "-", "a file, where --json takes standard output");
  }
  const auto tokens = token_list("--tokens", options.tokens);
  const auto splits = collect_splits(app, options, tokens.size());
  const auto positions = parse_positions(options.positions, tokens.size());
  const std::uint32_t slice = tokens_value("--batch", options.batch, 1);
  SessionOptions session;
  if (!options.context.empty()) session.context_tokens = tokens_value("-c", options.context, 1);
  check_can_write(options.output);

  Client client(make_config(options));
  const Model model = client.load(options.model);
  check_ids("--tokens", tokens, model.info().vocabulary);
  const auto evaluation =
      evaluate(client, model.open_session(session), tokens, splits, slice, positions);
  write_rows(options.output, evaluation.rows);
  client.write_trace();
  report(options, positions, tokens.size(), evaluation);
  return kExitDone;
}

}  // namespace

void add_logits(CommandLine& app, Commands& commands) {
  auto options = std::make_shared<LogitsOptions>();
  CommandLine& command =
      app.add_subcommand("logits", "Write the model's raw output for given tokens");
  command.add_option("-m,--model", options->model, "GGUF file").type_name("FILE");
  command.add_option("--tokens", options->tokens, "Ids: 1,2,3 or @FILE").type_name("IDS");
  command.add_option("--positions", options->positions, "Rows to write; -1 is the last")
      .show_default()
      .type_name("P,P,…");
  command
      .add_option("-o,--output", options->output,
                  "float32 little-endian, one row a position; - is standard output")
      .type_name("FILE");
  command.add_option("--evict", options->evictions, "Evict at the --at that follows; repeatable")
      .type_name("AMOUNT");
  command.add_option("--at", options->at, "Split the prefill after K tokens; repeatable")
      .type_name("K");
  command.add_option("--batch", options->batch, "Tokens of a prefill slice")
      .show_default()
      .type_name("N");
  command.add_option("-c,--context", options->context, "Context limit in tokens").type_name("N");
  command.add_option("--codec", options->codec, "Of the in-memory swap; none: nothing lossy")
      .type_name("NAME");
  command.add_option("--order", options->order, "backward-out, forward-out, random-out or optimal")
      .type_name("ORDER");
  options->common.add_to(command);
  command.add_flag("--json", options->json, "One JSON object on stdout");
  command.footer(
      "Example:\n  mzcache logits -m models/SmolLM2-135M-Instruct.Q4_1.gguf "
      "--tokens 504,3575,282,4649,314 \\\n    --positions 0,-1 --evict 50% --at 3 -o rows.f32\n"
      "--tokens @FILE takes what mzcache tokenize --json prints.");
  commands.push_back({&command, [&command, options] { return run(command, *options); }});
}

}  // namespace mzcache::tools
