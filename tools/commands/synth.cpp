// `mzcache synth`: a model of a real shape with seeded random weights.
#include "synth/synth.h"

#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include "command.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct SynthFlags {
  CommonOptions common;
  std::string arch;
  std::string type = "f16";
  std::string output;
  std::string seed = "1";
  bool json = false;
};

// `names`: separated by spaces.
std::string one_of(std::string_view flag, const std::string& value, const std::string& names) {
  std::istringstream words(names);
  for (std::string word; words >> word;) {
    if (word == value) return value;
  }
  refuse(flag, value, names);
}

int run(const SynthFlags& flags) {
  need("--arch", flags.arch, "a shape, for example smollm2-135m");
  need("-o", flags.output, "the GGUF file to write");
  synth::SynthOptions options;
  options.arch = one_of("--arch", flags.arch, synth::architecture_names());
  options.type = one_of("--type", flags.type, synth::type_names());
  options.path = flags.output;
  options.seed = static_cast<std::uint64_t>(
      integer_value("--seed", flags.seed, 0, std::numeric_limits<std::int64_t>::max()));
  static_cast<void>(flags.common.config());  // what is wrong in it is wrong here too
  const auto written = synth::synthesize(options);
  if (!written) throw Exception(written.error());
  if (!flags.json) {
    std::fprintf(stderr, "[%s written]\n", flags.output.c_str());
    return kExitDone;
  }
  print_json({{"file", flags.output},
              {"file_bytes", std::filesystem::file_size(flags.output)},
              {"arch", flags.arch},
              {"type", flags.type},
              {"seed", options.seed}});
  return kExitDone;
}

}  // namespace

void add_synth(CommandLine& app, Commands& commands) {
  auto flags = std::make_shared<SynthFlags>();
  CommandLine& command = app.add_subcommand("synth", "Write a model with random weights");
  command.add_option("--arch", flags->arch, "Shape, for example smollm2-135m").type_name("NAME");
  command.add_option("--type", flags->type, "f32, f16, bf16, q8_0, q4_0 or q4_1")
      .show_default()
      .type_name("TYPE");
  command.add_option("--seed", flags->seed, "Of the weights").show_default().type_name("N");
  command.add_option("-o,--output", flags->output, "GGUF file").type_name("FILE");
  flags->common.add_without_timelines_to(command);
  command.add_flag("--json", flags->json, "One JSON object on stdout");
  command.footer("Example:\n  mzcache synth --arch qwen3-0.6b --type f16 -o qwen3.gguf");
  commands.push_back({&command, [flags] { return run(*flags); }});
}

}  // namespace mzcache::tools
