// What the commands of `mzcache eval` share: texts as tokens, models that run exactly, and scores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client.h"
#include "command.h"
#include "options.h"

namespace mzcache::tools {

struct EvalOptions {
  CommonOptions common;
  std::string model;
  std::string text_file;
  std::string context;
  std::string score;
  std::string codecs;
  std::string count;  // --cycles, --codes
  bool json = false;
};

// Float activations unless the configuration says otherwise; everything that is evicted is encoded;
// nothing is measured first.
[[nodiscard]] Config eval_config(const EvalOptions& options, const std::string& codec);
// "a,b,c".
[[nodiscard]] std::vector<std::string> codec_list(const EvalOptions& options);
// The first `count` tokens of -f; an error where it has fewer.
[[nodiscard]] std::vector<Token> text_tokens(const EvalOptions& options, const Model& model,
                                             std::size_t count);
// Logits after each token of `tokens`, which continue the session.
[[nodiscard]] LogitRows all_rows(Client& client, Session session, const std::vector<Token>& tokens);
// Prefills without asking for logits.
void prefill(Client& client, Session session, const std::vector<Token>& tokens);
// Evicts all there is; the share of the evicted chunks' bytes that encoding saved, in percent.
[[nodiscard]] double evict_all(Client& client);
// -log of the probability of each next token; rows.size() - 1 of them.
[[nodiscard]] std::vector<double> surprises(const LogitRows& rows,
                                            const std::vector<Token>& tokens);

// Options that all commands have, and those of commands that compare codecs.
[[nodiscard]] std::shared_ptr<EvalOptions> add_eval_common(CommandLine& command);
void add_eval_codecs(CommandLine& command, EvalOptions& options, const char* codecs);

void add_eval_lookup(CommandLine& group, Commands& commands);
void add_eval_lossless(CommandLine& group, Commands& commands);

}  // namespace mzcache::tools
