// `mzcache tokenize`: text to ids, with their pieces.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "mzcache/vocabulary.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string prompt;
  std::string file = "-";
  bool no_special = false;
  bool no_bos = false;
  bool json = false;
};

// A piece on one line: control characters by their escape.
std::string on_one_line(const std::string& piece) {
  std::string line;
  for (const char c : piece) {
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

int run(const TokenizeFlags& flags, bool prompt_given) {
  need("-m", flags.model, "a GGUF file");
  const std::string text = prompt_given ? flags.prompt : read_text_file(flags.file);
  const Vocabulary vocabulary = Vocabulary::load(flags.model);
  const auto tokens = vocabulary.tokenize(text, {!flags.no_special, !flags.no_bos});
  std::vector<std::string> pieces;
  pieces.reserve(tokens.size());
  for (const Token token : tokens) pieces.push_back(vocabulary.piece(token));
  if (flags.json) {
    print_json({{"tokens", tokens}, {"pieces", pieces}});
    return kExitDone;
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::printf("%7d  %s\n", tokens[i], on_one_line(pieces[i]).c_str());
  }
  return kExitDone;
}

}  // namespace

void add_tokenize(CLI::App& app, Commands& commands) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = app.add_subcommand("tokenize", "Show the ids a text becomes");
  command->add_option("-m,--model", flags->model, "GGUF file")->type_name("FILE");
  auto* prompt = command->add_option("-p,--prompt", flags->prompt, "The text")->type_name("TEXT");
  command->add_option("-f,--file", flags->file, "The text from a file; - or none: standard input")
      ->type_name("FILE")
      ->excludes(prompt);
  command->add_flag("--no-special", flags->no_special, "Special tokens in the text are text");
  command->add_flag("--no-bos", flags->no_bos, "No token for the beginning");
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->footer(
      "Example:\n  mzcache tokenize -m models/SmolLM2-135M-Instruct.Q4_1.gguf -p 'Hello, world'");
  commands.push_back({command, [flags, prompt] { return run(*flags, prompt->count() > 0); }});
}

}  // namespace mzcache::tools
