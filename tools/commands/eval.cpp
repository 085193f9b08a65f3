// `mzcache eval`: quality of a model, of a codec, of repeated swap cycles.
#include "commands/eval.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>

#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {

Config eval_config(const EvalOptions& options, const std::string& codec) {
  Config config = options.common.config();
  if (config.device.activations == "auto") config.device.activations = "float";
  if (!codec.empty()) {
    set_from_flag(config, "--codec", "memory.codec", codec);
    config.set("memory.storage_codec=none");
    if (codec != "none") config.set("policy.paths=memory");
  }
  // Plans matter to how fast, not to how well.
  if (config.profile.read_bytes_per_s <= 0) config.profile.read_bytes_per_s = 1e9;
  if (config.profile.decode_bytes_per_s <= 0) config.profile.decode_bytes_per_s = 1e9;
  if (config.profile.allocate_bytes_per_s <= 0) config.profile.allocate_bytes_per_s = 1e9;
  return config;
}

std::vector<std::string> codec_list(const EvalOptions& options) {
  std::vector<std::string> codecs;
  for (std::size_t begin = 0; begin <= options.codecs.size();) {
    const std::size_t end = std::min(options.codecs.find(',', begin), options.codecs.size());
    if (end > begin) codecs.push_back(options.codecs.substr(begin, end - begin));
    begin = end + 1;
  }
  need("--codec", options.codecs, "names of codecs, such as q8,entropy");
  for (const std::string& codec : codecs) static_cast<void>(eval_config(options, codec));
  return codecs;
}

std::vector<Token> text_tokens(const EvalOptions& options, const Model& model, std::size_t count) {
  std::vector<Token> tokens = model.tokenize(read_text_file(options.text_file), {});
  if (tokens.size() < count) {
    throw Exception(Error{.code = ErrorCode::kBadArgument,
                          .native = 0,
                          .operation = "eval",
                          .context = options.text_file + ": " + std::to_string(tokens.size()) +
                                     " tokens, " + std::to_string(count) + " are needed",
                          .hint = "give a longer text or a smaller --context"});
  }
  tokens.resize(count);
  return tokens;
}

LogitRows all_rows(Client& client, Session session, const std::vector<Token>& tokens) {
  Evaluate message{session, tokens, std::vector<std::uint32_t>(tokens.size()), 512};
  std::iota(message.positions.begin(), message.positions.end(), 0U);
  LogitRows rows = client.ask(std::move(message));
  if (rows.values.size() != tokens.size() * rows.vocabulary) {
    throw Exception(Error{ErrorCode::kInternal, 0, "eval", "rows are missing"});
  }
  return rows;
}

void prefill(Client& client, Session session, const std::vector<Token>& tokens) {
  static_cast<void>(client.ask(Evaluate{session, tokens, {}, 512}));
}

double evict_all(Client& client) {
  const EvictReport report = client.ask(Evict{Amount{.percent = 100}});
  if (report.bytes_encoded == 0) return 0;
  return 100 * (1 - static_cast<double>(report.bytes_compressed) /
                        static_cast<double>(report.bytes_encoded));
}

namespace {

// log Σ exp.
double log_sum(std::span<const float> row) {
  const double most = double{*std::max_element(row.begin(), row.end())};
  double sum = 0;
  for (const float value : row) sum += std::exp(double{value} - most);
  return most + std::log(sum);
}

std::span<const float> row_of(const LogitRows& rows, std::size_t index) {
  return std::span(rows.values).subspan(index * rows.vocabulary, rows.vocabulary);
}

std::size_t best_of(std::span<const float> row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::shared_ptr<EvalOptions> add_eval_common(CommandLine& command) {
  auto options = std::make_shared<EvalOptions>();
  command.add_option("-m,--model", options->model, "GGUF file").type_name("FILE");
  command.add_option("-f,--file", options->text_file, "Text").type_name("FILE");
  command.add_flag("--json", options->json, "One JSON object on stdout");
  options->common.add_to(command);
  return options;
}

void add_eval_codecs(CommandLine& command, EvalOptions& options, const char* codecs) {
  options.codecs = codecs;
  options.context = "3072";
  command.add_option("--codec", options.codecs, "Names, separated by commas")
      .show_default()
      .type_name("LIST");
  command.add_option("--context", options.context, "Tokens that are evicted")
      .show_default()
      .type_name("N");
}

std::vector<double> surprises(const LogitRows& rows, const std::vector<Token>& tokens) {
  std::vector<double> found;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto row = row_of(rows, i);
    found.push_back(log_sum(row) - double{row[static_cast<std::size_t>(tokens[i + 1])]});
  }
  return found;
}

namespace {

// Σ p log(p/q) of two rows of logits.
double divergence(std::span<const float> p, std::span<const float> q) {
  const double p_sum = log_sum(p);
  const double q_sum = log_sum(q);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = double{p[i]} - p_sum;
    sum += std::exp(log_p) * (log_p - (double{q[i]} - q_sum));
  }
  return std::max(sum, 0.0);
}

struct Sizes {
  std::uint32_t context = 0;
  std::uint32_t score = 0;
};

Sizes sizes_of(const EvalOptions& options) {
  need("-m", options.model, "a GGUF file");
  need("-f", options.text_file, "a text");
  Sizes sizes;
  sizes.context = tokens_value("--context", options.context, 1);
  if (!options.score.empty()) sizes.score = tokens_value("--score", options.score, 2);
  return sizes;
}

struct KlRow {
  std::string codec;
  double saved_percent = 0;
  double kl = 0;
  double kl_p99 = 0;
  double top1_percent = 0;
  double perplexity_ratio = 0;
};

// The rows after the context: untouched where codec is "", else after all of it was evicted.
LogitRows scored_rows(const EvalOptions& options, const Sizes& sizes, const std::string& codec,
                      std::vector<Token>& scored, double& saved_percent) {
  Client client(eval_config(options, codec));
  const Model model = client.load(options.model);
  const auto tokens = text_tokens(options, model, std::size_t{sizes.context} + sizes.score);
  const auto middle = tokens.begin() + sizes.context;
  scored.assign(middle, tokens.end());
  const Session session = model.open_session({});
  prefill(client, session, {tokens.begin(), middle});
  saved_percent = codec.empty() ? 0 : evict_all(client);
  LogitRows rows = all_rows(client, session, scored);
  client.write_trace();
  return rows;
}

KlRow compare(const std::string& codec, const LogitRows& reference, const LogitRows& rows,
              const std::vector<Token>& tokens) {
  KlRow result{codec, 0, 0, 0, 0, 0};
  std::vector<double> kl;
  std::size_t same = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    kl.push_back(divergence(row_of(reference, i), row_of(rows, i)));
    same += best_of(row_of(reference, i)) == best_of(row_of(rows, i));
  }
  result.kl = mean(kl);
  std::sort(kl.begin(), kl.end());
  result.kl_p99 = kl[std::min(kl.size() - 1, kl.size() * 99 / 100)];
  result.top1_percent = 100 * static_cast<double>(same) / static_cast<double>(tokens.size());
  result.perplexity_ratio =
      std::exp(mean(surprises(rows, tokens)) - mean(surprises(reference, tokens)));
  return result;
}

int run_kl(const EvalOptions& options) {
  const Sizes sizes = sizes_of(options);
  const auto codecs = codec_list(options);
  std::vector<Token> tokens;
  double saved = 0;
  const LogitRows reference = scored_rows(options, sizes, "", tokens, saved);
  Json list = Json::array();
  if (!options.json) {
    std::printf("%-14s %8s %10s %10s %8s %10s\n", "codec", "saved %", "KL", "KL p99", "top-1 %",
                "perplexity");
  }
  for (const std::string& codec : codecs) {
    const LogitRows rows = scored_rows(options, sizes, codec, tokens, saved);
    KlRow row = compare(codec, reference, rows, tokens);
    row.saved_percent = saved;
    list.push_back({{"codec", row.codec},
                    {"saved_percent", row.saved_percent},
                    {"kl", row.kl},
                    {"kl_p99", row.kl_p99},
                    {"top1_percent", row.top1_percent},
                    {"perplexity_ratio", row.perplexity_ratio}});
    if (options.json) continue;
    std::printf("%-14s %8.2f %10.6f %10.6f %8.2f %10.5f\n", row.codec.c_str(), row.saved_percent,
                row.kl, row.kl_p99, row.top1_percent, row.perplexity_ratio);
    std::fflush(stdout);
  }
  if (options.json) print_json({{"rows", list}});
  return kExitDone;
}

int run_perplexity(const EvalOptions& options) {
  const Sizes sizes = sizes_of(options);
  if (sizes.context < 4) refuse("--context", options.context, "a count from 4");
  Client client(eval_config(options, ""));
  const Model model = client.load(options.model);
  std::vector<Token> tokens = model.tokenize(read_text_file(options.text_file), {});
  const std::size_t windows_max =
      options.count.empty() ? tokens.size() : tokens_value("--windows", options.count, 1);
  std::vector<double> found;
  std::size_t windows = 0;
  for (std::size_t at = 0; at + sizes.context <= tokens.size() && windows < windows_max;
       at += sizes.context, ++windows) {
    // The second half of each window is scored, with the first for its context.
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    const auto middle = first + sizes.context / 2;
    const std::vector<Token> scored(middle, first + sizes.context);
    const Session session = model.open_session({});
    prefill(client, session, {first, middle});
    const auto surprise = surprises(all_rows(client, session, scored), scored);
    found.insert(found.end(), surprise.begin(), surprise.end());
    static_cast<void>(client.ask(Reset{session}));
  }
  if (found.empty()) static_cast<void>(text_tokens(options, model, sizes.context));
  client.write_trace();
  const double average = mean(found);
  double squares = 0;
  for (const double surprise : found) squares += (surprise - average) * (surprise - average);
  const auto count = static_cast<double>(found.size());
  const double perplexity = std::exp(average);
  const double error = perplexity * std::sqrt(squares / count / count);
  if (options.json) {
    print_json({{"perplexity", perplexity},
                {"standard_error", error},
                {"windows", windows},
                {"scored_tokens", found.size()}});
  } else {
    std::printf("perplexity %.4f ± %.4f over %zu tokens in %zu windows\n", perplexity, error,
                found.size(), windows);
  }
  return kExitDone;
}

// Rows after `cycles` evictions of everything, each from freshly encoded chunks.
LogitRows cycled_rows(const EvalOptions& options, const Sizes& sizes, const std::string& codec,
                      std::uint32_t cycles) {
  Client client(eval_config(options, codec));
  const Model model = client.load(options.model);
  const auto tokens = text_tokens(options, model, std::size_t{sizes.context} + sizes.score);
  const auto middle = tokens.begin() + sizes.context;
  const Session session = model.open_session({});
  prefill(client, session, {tokens.begin(), middle});
  for (std::uint32_t i = 0; i < cycles; ++i) {
    static_cast<void>(evict_all(client));
    Restore restore;
    restore.keep_copies = false;
    static_cast<void>(client.ask(restore));
  }
  LogitRows rows = all_rows(client, session, {middle, tokens.end()});
  client.write_trace();
  return rows;
}

int run_swap(const EvalOptions& options) {
  const Sizes sizes = sizes_of(options);
  const std::uint32_t cycles = tokens_value("--cycles", options.count, 2);
  Json list = Json::array();
  bool same = true;
  for (const std::string& codec : codec_list(options)) {
    const LogitRows once = cycled_rows(options, sizes, codec, 1);
    const LogitRows often = cycled_rows(options, sizes, codec, cycles);
    std::size_t changed = 0;
    double largest = 0;
    for (std::size_t i = 0; i < once.values.size(); ++i) {
      changed += once.values[i] != often.values[i];
      largest = std::max(largest, std::fabs(double{once.values[i]} - double{often.values[i]}));
    }
    same = same && changed == 0;
    list.push_back({{"codec", codec},
                    {"cycles", cycles},
                    {"logits", once.values.size()},
                    {"changed", changed},
                    {"largest_difference", largest}});
    if (options.json) continue;
    std::printf(
        "%-14s after %u cycles %zu of %zu logits differ from those after one, by at most %g\n",
        codec.c_str(), cycles, changed, once.values.size(), largest);
    std::fflush(stdout);
  }
  if (options.json) print_json({{"rows", list}});
  return same ? kExitDone : kExitFailed;
}

void add_score(CommandLine& command, EvalOptions& options, const char* score) {
  options.score = score;
  command.add_option("--score", options.score, "Tokens after them that are scored")
      .show_default()
      .type_name("N");
}

void add_eval_kl(CommandLine& group, Commands& commands) {
  CommandLine& command =
      group.add_subcommand("kl", "How far a codec moves the model's next-token distribution");
  auto options = add_eval_common(command);
  add_eval_codecs(command, *options, "q8,entropy");
  add_score(command, *options, "512");
  command.footer(
      "Example:\n  mzcache eval kl -m models/SmolLM2-135M-Instruct.Q4_1.gguf -f texts/prose.txt "
      "--codec q8,q4,entropy\nAll of the context is evicted and restored; what follows is scored "
      "against the run without.");
  commands.push_back({&command, [options] { return run_kl(*options); }});
}

void add_eval_perplexity(CommandLine& group, Commands& commands) {
  CommandLine& command = group.add_subcommand("perplexity", "Of a model on a text");
  auto options = add_eval_common(command);
  options->context = "1024";
  command.add_option("--context", options->context, "Tokens of a window; its second half counts")
      .show_default()
      .type_name("N");
  command.add_option("--windows", options->count, "At most so many").type_name("N");
  command.footer(
      "Example:\n  mzcache eval perplexity -m models/SmolLM2-135M-Instruct.Q4_1.gguf "
      "-f texts/prose.txt --windows 8");
  commands.push_back({&command, [options] { return run_perplexity(*options); }});
}

void add_eval_swap(CommandLine& group, Commands& commands) {
  CommandLine& command =
      group.add_subcommand("swap", "Whether repeated evictions change what the first one left");
  auto options = add_eval_common(command);
  add_eval_codecs(command, *options, "q8,entropy");
  add_score(command, *options, "64");
  options->count = "100";
  command.add_option("--cycles", options->count, "Evictions and restores")
      .show_default()
      .type_name("N");
  command.footer(
      "Example:\n  mzcache eval swap -m models/SmolLM2-135M-Instruct.Q4_1.gguf -f texts/prose.txt "
      "--codec q8 --cycles 100\nExit status 1 where a logit changed.");
  commands.push_back({&command, [options] { return run_swap(*options); }});
}

}  // namespace

void add_eval(CommandLine& app, Commands& commands) {
  CommandLine& group = app.add_subcommand("eval", "Measure quality: of a model, of a codec");
  group.footer(
      "Example:\n  mzcache eval kl -m models/SmolLM2-135M-Instruct.Q4_1.gguf -f texts/prose.txt");
  add_eval_kl(group, commands);
  add_eval_lookup(group, commands);
  add_eval_lossless(group, commands);
  add_eval_swap(group, commands);
  add_eval_perplexity(group, commands);
}

}  // namespace mzcache::tools
