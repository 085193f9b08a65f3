// `mzcache bench prefill`, `decode`, `attention`: the compute side alone, beside what the machine
// could do at best (peak multiply-adds, reading memory), which probes measure in the same run.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "commands/bench_rig.h"
#include "commands/median.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct SpeedOptions {
  CommonOptions common;
  std::string model;
  std::string tokens = "8,512";
  std::string depth = "0";
  std::string generated = "32";
  std::string repeat = "5";
  bool encoded = false;
  bool json = false;
};

std::vector<std::uint32_t> token_list(const char* flag, const std::string& text,
                                      std::uint32_t least) {
  std::vector<std::uint32_t> values;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    values.push_back(tokens_value(flag, text.substr(at, end - at), least));
    at = end + 1;
  }
  return values;
}

// Fractions of the machine's best that `work` done in `ms` comes to.
void add_fractions(Json& row, const Work& work, double ms, const gpu::Roofline& roofline) {
  row["operations_per_s"] = work.operations / ms * 1e3;
  row["read_bytes_per_s"] = work.bytes / ms * 1e3;
  row["fma_fraction"] = work.operations / ms * 1e3 / roofline.operations_per_s;
  row["bandwidth_fraction"] = work.bytes / ms * 1e3 / roofline.read_bytes_per_s;
}

Json machine_json(ComputeRig& rig, const gpu::Roofline& roofline) {
  const gpu::DeviceInfo& info = rig.device().info();
  return {{"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"device", info.name},
          {"kernels", info.kernels},
          {"activations", rig.kernels().needs.int8 ? "int8" : "float"},
          {"float_width", info.float_width},
          {"peak_operations_per_s", roofline.operations_per_s},
          {"peak_read_bytes_per_s", roofline.read_bytes_per_s}};
}

using Measure = std::function<Json(ComputeRig&, std::uint32_t depth, std::uint32_t tokens,
                                   std::uint32_t repeat, const gpu::Roofline&)>;

Json measure_prefill(ComputeRig& rig, std::uint32_t depth, std::uint32_t tokens,
                     std::uint32_t repeat, const gpu::Roofline& roofline) {
  std::vector<double> times;
  times.reserve(repeat);
  (void)rig.run_ms(depth, std::min(tokens, 512U));
  for (std::uint32_t i = 0; i < repeat; ++i) times.push_back(rig.run_ms(depth, tokens));
  const double ms = median(times);
  Json row = {
      {"tokens", tokens}, {"depth", depth}, {"ms", ms}, {"tokens_per_s", tokens / ms * 1e3}};
  add_fractions(row, rig.work(depth, tokens), ms, roofline);
  return row;
}

Json measure_decode(ComputeRig& rig, std::uint32_t depth, std::uint32_t tokens,
                    std::uint32_t repeat, const gpu::Roofline& roofline) {
  std::vector<double> times;
  (void)rig.run_ms(depth, 1);
  for (std::uint32_t i = 0; i < repeat; ++i) {
    double sum = 0;
    for (std::uint32_t t = 0; t < tokens; ++t) sum += rig.run_ms(depth + t, 1);
    times.push_back(sum / tokens);
  }
  const double ms = median(times);
  Json row = {{"depth", depth}, {"tokens", tokens}, {"ms", ms}, {"tokens_per_s", 1e3 / ms}};
  add_fractions(row, rig.work(depth, 1), ms, roofline);
  return row;
}

Json measure_attention(ComputeRig& rig, std::uint32_t depth, std::uint32_t tokens,
                       std::uint32_t repeat, const gpu::Roofline& roofline, bool encoded) {
  std::vector<double> times;
  (void)rig.attention_ms(depth, tokens, encoded);
  for (std::uint32_t i = 0; i < std::max(repeat, 5U); ++i) {
    times.push_back(rig.attention_ms(depth, tokens, encoded));
  }
  const double ms = median(times);
  Json row = {{"tokens", tokens}, {"depth", depth}, {"ms", ms}};
  add_fractions(row, rig.attention_work(depth, tokens, encoded), ms, roofline);
  return row;
}

Measure attention_measure(bool encoded) {
  return [encoded](ComputeRig& rig, std::uint32_t depth, std::uint32_t tokens, std::uint32_t repeat,
                   const gpu::Roofline& roofline) {
    return measure_attention(rig, depth, tokens, repeat, roofline, encoded);
  };
}

void print_row(const Json& row) {
  const auto value = [&](const char* key) { return row.value(key, 0.0); };
  std::printf("%7.0f %7.0f %10.3f %10.1f %9.1f %7.0f %% %9.1f %7.0f %%\n", value("depth"),
              value("tokens"), value("ms"), value("tokens_per_s"), value("operations_per_s") / 1e9,
              value("fma_fraction") * 100, value("read_bytes_per_s") / 1e9,
              value("bandwidth_fraction") * 100);
  std::fflush(stdout);
}

int run(const SpeedOptions& options, const std::string& tokens_text, const char* tokens_flag,
        const Measure& measure) {
  need("-m", options.model, "a GGUF file");
  const auto tokens = token_list(tokens_flag, tokens_text, 1);
  const auto depths = token_list("--depth", options.depth, 0);
  const auto repeat =
      static_cast<std::uint32_t>(integer_value("--repeat", options.repeat, 1, 1000));
  const std::uint32_t context = *std::max_element(depths.begin(), depths.end()) +
                                std::max(512U, *std::max_element(tokens.begin(), tokens.end()));
  ComputeRig rig(options.common.config(), options.model, context);
  const gpu::Roofline roofline = value_or_throw(gpu::measure_roofline(rig.device()));
  const Json machine = machine_json(rig, roofline);
  if (!options.json) {
    std::printf(
        "%s, %s kernels, %s activations, vectors of %d floats\n",
        machine["device"].get<std::string>().c_str(), machine["kernels"].get<std::string>().c_str(),
        machine["activations"].get<std::string>().c_str(), machine["float_width"].get<int>());
    std::printf("at best %.0f GFLOP/s, %.1f GB/s\n", roofline.operations_per_s / 1e9,
                roofline.read_bytes_per_s / 1e9);
    std::printf("%7s %7s %10s %10s %9s %9s %9s %9s\n", "depth", "tokens", "ms", "tokens/s",
                "GFLOP/s", "of FMA", "GB/s", "of memory");
  }
  Json rows = Json::array();
  for (const std::uint32_t depth : depths) {
    for (const std::uint32_t count : tokens) {
      rows.push_back(measure(rig, depth, count, repeat, roofline));
      if (!options.json) print_row(rows.back());
    }
  }
  if (options.json) print_json({{"rows", rows}, {"machine", machine}});
  return kExitDone;
}

std::shared_ptr<SpeedOptions> add_common(CommandLine& command) {
  auto options = std::make_shared<SpeedOptions>();
  command.add_option("-m,--model", options->model, "GGUF file").type_name("FILE");
  command.add_option("--depth", options->depth, "Positions before, a row each (8k = 8192)")
      .show_default()
      .type_name("N,N,…");
  command.add_option("--repeat", options->repeat, "Runs; the median counts")
      .show_default()
      .type_name("N");
  options->common.add_without_timelines_to(command);
  command.add_flag("--json", options->json, "One JSON object on stdout");
  return options;
}

}  // namespace

void add_bench_compute(CommandLine& group, Commands& commands) {
  const std::string model = " -m models/SmolLM2-135M-Instruct.Q4_1.gguf ";
  for (const bool alone : {false, true}) {
    CommandLine& command =
        alone ? group.add_subcommand("attention", "Attention of one layer alone")
              : group.add_subcommand("prefill", "Tokens a second of a prompt, at a depth");
    auto options = add_common(command);
    if (alone) options->tokens = "1,8,512";
    command.add_option("-p,--prompt", options->tokens, "Tokens of the prompt, a row each")
        .show_default()
        .type_name("N,N,…");
    if (alone) {
      command.add_flag("--encoded", options->encoded,
                       "Full chunks as the in-memory swap has them (codec q8)");
    }
    command.footer("Example:\n  " + command.full_name() + model + "-p 8,512 --depth 0,4k");
    commands.push_back({&command, [options, alone] {
                          return run(*options, options->tokens, "-p",
                                     alone ? attention_measure(options->encoded)
                                           : Measure(measure_prefill));
                        }});
  }
  CommandLine& command = group.add_subcommand("decode", "Tokens a second, one by one, at a depth");
  auto options = add_common(command);
  command.add_option("-n", options->generated, "Tokens of a run").show_default().type_name("N");
  command.footer("Example:\n  mzcache bench decode" + model + "--depth 0,4k -n 32");
  commands.push_back(
      {&command, [options] { return run(*options, options->generated, "-n", measure_decode); }});
}

}  // namespace mzcache::tools
