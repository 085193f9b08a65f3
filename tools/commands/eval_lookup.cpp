// `mzcache eval lookup`: hides codes in a text and asks for them after all of it was evicted.
#include <array>
#include <cctype>
#include <cstdio>
#include <memory>
#include <random>

#include "commands/eval.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

constexpr std::array<const char*, 48> kNames{
    "Alice",  "Bruno",   "Carla",  "David",  "Elena",  "Felix",  "Greta",  "Henry",
    "Irene",  "Jakob",   "Karin",  "Louis",  "Maria",  "Nadia",  "Oscar",  "Paula",
    "Quinn",  "Robert",  "Sarah",  "Thomas", "Ursula", "Victor", "Wanda",  "Xavier",
    "Yvonne", "Zachary", "Anton",  "Bianca", "Conrad", "Daphne", "Edward", "Fiona",
    "George", "Helen",   "Isaac",  "Julia",  "Kevin",  "Laura",  "Martin", "Nora",
    "Oliver", "Petra",   "Rachel", "Simon",  "Tessa",  "Ulrich", "Vera",   "Walter"};
constexpr std::size_t kDigits = 5;
constexpr std::uint64_t kSeed = 20;
constexpr std::uint32_t kAnswerTokens = 8;

struct Hidden {
  std::vector<Token> tokens;
  std::vector<std::string> codes;  // of the names, in order
};

// `count` sentences spread over the text, `context` tokens in all.
Hidden hide(const EvalOptions& options, const Model& model, std::uint32_t count,
            std::uint32_t context) {
  Hidden hidden;
  std::mt19937_64 random(kSeed);
  std::vector<std::vector<Token>> sentences;
  std::size_t taken = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string code;
    while (code.size() < kDigits) code.push_back(static_cast<char>('0' + random() % 10));
    hidden.codes.push_back(code);
    TokenizeOptions plain;
    plain.add_bos = false;
    sentences.push_back(model.tokenize(
        std::string("\nThe secret code of ") + kNames.at(i) + " is " + code + ".\n", plain));
    taken += sentences.back().size();
  }
  if (taken >= context) {
    throw Exception(Error{ErrorCode::kBadArgument, 0, "eval lookup",
                          std::to_string(count) + " codes take " + std::to_string(taken) +
                              " tokens of a context of " + std::to_string(context)});
  }
  const auto text = text_tokens(options, model, context - taken);
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t end = text.size() * (i + 1) / (count + 1);
    hidden.tokens.insert(hidden.tokens.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                         text.begin() + static_cast<std::ptrdiff_t>(end));
    hidden.tokens.insert(hidden.tokens.end(), sentences[i].begin(), sentences[i].end());
    at = end;
  }
  hidden.tokens.insert(hidden.tokens.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                       text.end());
  return hidden;
}

struct LookupRow {
  double saved_percent = 0;
  double digits_percent = 0;
  double whole_percent = 0;
};

LookupRow look_up(const EvalOptions& options, const std::string& codec, std::uint32_t count,
                  std::uint32_t context) {
  const bool untouched = codec == "untouched";
  Client client(eval_config(options, untouched ? "" : codec));
  const Model model = client.load(options.model);
  const Hidden hidden = hide(options, model, count, context);
  const Session session = model.open_session({});
  prefill(client, session, hidden.tokens);
  LookupRow row;
  if (!untouched) row.saved_percent = evict_all(client);
  std::size_t digits = 0;
  std::size_t whole = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    Generate question{session, std::string("\nThe secret code of ") + kNames.at(i) + " is", {}, {}};
    question.options.raw = true;
    question.options.max_tokens = kAnswerTokens;
    const Answer answer = client.ask(std::move(question));
    std::string found;
    for (const char c : answer.text) {
      if (std::isdigit(static_cast<unsigned char>(c)) != 0) found.push_back(c);
      if (found.size() == kDigits) break;
    }
    for (std::size_t k = 0; k < found.size(); ++k) digits += found[k] == hidden.codes[i][k];
    whole += found == hidden.codes[i];
  }
  client.write_trace();
  row.digits_percent = 100 * static_cast<double>(digits) / static_cast<double>(count * kDigits);
  row.whole_percent = 100 * static_cast<double>(whole) / static_cast<double>(count);
  return row;
}

int run(const EvalOptions& options) {
  need("-m", options.model, "a GGUF file");
  need("-f", options.text_file, "a text");
  const std::uint32_t context = tokens_value("--context", options.context, 1);
  const auto count = static_cast<std::uint32_t>(
      integer_value("--codes", options.count, 1, static_cast<std::int64_t>(kNames.size())));
  auto codecs = codec_list(options);
  codecs.insert(codecs.begin(), "untouched");
  Json list = Json::array();
  if (!options.json) std::printf("%-14s %8s %9s %8s\n", "codec", "saved %", "digits %", "whole %");
  for (const std::string& codec : codecs) {
    const LookupRow row = look_up(options, codec, count, context);
    list.push_back({{"codec", codec},
                    {"saved_percent", row.saved_percent},
                    {"digits_percent", row.digits_percent},
                    {"whole_percent", row.whole_percent}});
    if (options.json) continue;
    std::printf("%-14s %8.2f %9.1f %8.1f\n", codec.c_str(), row.saved_percent, row.digits_percent,
                row.whole_percent);
    std::fflush(stdout);
  }
  if (options.json) print_json({{"rows", list}});
  return kExitDone;
}

}  // namespace

void add_eval_lookup(CommandLine& group, Commands& commands) {
  CommandLine& command =
      group.add_subcommand("lookup", "Hide random codes in a text and ask for them");
  auto options = add_eval_common(command);
  add_eval_codecs(command, *options, "q8,entropy");
  options->count = "40";
  command.add_option("--codes", options->count, "How many").show_default().type_name("N");
  command.footer(
      "Example:\n  mzcache eval lookup -m models/SmolLM2-135M-Instruct.Q4_1.gguf "
      "-f texts/prose.txt --codec q8,entropy");
  commands.push_back({&command, [options] { return run(*options); }});
}

}  // namespace mzcache::tools
