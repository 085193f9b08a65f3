// `mzcache tokenize`: text to ids, with their pieces.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "mzcache/vocabulary.h"
#include "options.h"
#include "report_json.h"
#include "token_text.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct TokenizeFlags {
  CommonOptions common;
  std::string model;
  std::string prompt;
  std::string file = "-";
  bool no_special = false;
  bool no_bos = false;
  bool no_eos = false;
  bool json = false;
};

int run(const TokenizeFlags& flags, bool prompt_given) {
  need("-m", flags.model, "a GGUF file");
  static_cast<void>(flags.common.config());  // what is wrong in it is wrong here too
  const std::string text = prompt_given ? flags.prompt : read_text_file(flags.file);
  const Vocabulary vocabulary = Vocabulary::load(flags.model);
  const auto tokens = vocabulary.tokenize(text, {!flags.no_special, !flags.no_bos, !flags.no_eos});
  std::vector<std::string> pieces;
  pieces.reserve(tokens.size());
  for (const Token token : tokens) pieces.push_back(vocabulary.piece(token));
  if (flags.json) {
    for (std::string& piece : pieces) piece = escaped_piece(piece);
    print_json({{"tokens", tokens}, {"pieces", pieces}});
    return kExitDone;
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::printf("%7d  %s\n", tokens[i], on_one_line(pieces[i]).c_str());
  }
  return kExitDone;
}

}  // namespace

void add_tokenize(CommandLine& app, Commands& commands) {
  auto flags = std::make_shared<TokenizeFlags>();
  CommandLine& command = app.add_subcommand("tokenize", "Show the ids a text becomes");
  command.add_option("-m,--model", flags->model, "GGUF file").type_name("FILE");
  const Option prompt =
      command.add_option("-p,--prompt", flags->prompt, "The text").type_name("TEXT");
  command.add_option("-f,--file", flags->file, "The text from a file; - or none: standard input")
      .type_name("FILE")
      .excludes(prompt);
  command.add_flag("--no-special", flags->no_special, "Special tokens in the text are text");
  command.add_flag("--no-bos", flags->no_bos, "No token for the beginning");
  command.add_flag("--no-eos", flags->no_eos, "No token for the end");
  flags->common.add_without_timelines_to(command);
  command.add_flag("--json", flags->json, "One JSON object on stdout");
  command.footer(
      "Example:\n  mzcache tokenize -m models/SmolLM2-135M-Instruct.Q4_1.gguf -p 'Hello, world'\n"
      "A token may hold a part of a character. In pieces such a byte is written <0xE2>, and so is "
      "the\n'<' (<0x3C>) of a piece that has such an escape in its own text: with every escape "
      "turned back\ninto its byte the pieces are the text again, byte for byte.");
  commands.push_back({&command, [flags, prompt] { return run(*flags, !prompt.given().empty()); }});
}

}  // namespace mzcache::tools
