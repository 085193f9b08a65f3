// `mzcache trace`: a recorded run summed up, or drawn.
#include "mzcache/trace.h"

#include <cstdio>
#include <memory>
#include <string>

#include "command.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct TraceOptions {
  CommonOptions common;
  std::string file;
  std::string output;
  bool json = false;
};

int summary(const TraceOptions& options) {
  const std::string& file = options.file;
  need("FILE", file, "a trace written by --trace");
  static_cast<void>(options.common.config());  // what is wrong in it is wrong here too
  const auto stages = summarize_trace(file);
  if (options.json) {
    Json rows = Json::array();
    for (const TraceStage& stage : stages) {
      rows.push_back({{"stage", stage.name},
                      {"busy_ms", stage.busy_ms},
                      {"overlap_compute_percent", stage.overlap_compute_percent},
                      {"overlap_others_percent", stage.overlap_others_percent},
                      {"spans", stage.spans},
                      {"bytes", stage.bytes}});
    }
    print_json({{"file", file}, {"stages", rows}});
    return kExitDone;
  }
  std::printf("%-10s %10s %18s %16s %8s %12s\n", "stage", "busy ms", "during compute %",
              "during others %", "spans", "bytes");
  for (const TraceStage& stage : stages) {
    std::printf("%-10s %10.2f %18.1f %16.1f %8llu %12s\n", stage.name.c_str(), stage.busy_ms,
                stage.overlap_compute_percent, stage.overlap_others_percent,
                static_cast<unsigned long long>(stage.spans),
                human_bytes(static_cast<double>(stage.bytes)).c_str());
  }
  return kExitDone;
}

int draw(const TraceOptions& options) {
  need("FILE", options.file, "a trace written by --trace");
  need("-o", options.output, "the SVG file to write");
  static_cast<void>(options.common.config());  // what is wrong in it is wrong here too
  draw_trace(options.file, options.output);
  if (options.json) print_json({{"file", options.file}, {"svg_file", options.output}});
  return kExitDone;
}

}  // namespace

void add_trace(CommandLine& app, Commands& commands) {
  CommandLine& group = app.add_subcommand("trace", "Read a recorded trace");
  group.footer(
      "Example:\n  mzcache run -m models/SmolLM2-135M-Instruct.Q4_1.gguf -p Hello --trace "
      "run.json\n"
      "  mzcache trace summary run.json");

  auto options = std::make_shared<TraceOptions>();
  CommandLine& sum =
      group.add_subcommand("summary", "Busy time per stage, and how much overlapped");
  sum.add_option("FILE", options->file, "Trace written by --trace");
  options->common.add_without_timelines_to(sum);
  sum.add_flag("--json", options->json, "One JSON object on stdout");
  sum.footer("Example:\n  mzcache trace summary run.json --json");
  commands.push_back({&sum, [options] { return summary(*options); }});

  CommandLine& svg = group.add_subcommand("svg", "Draw the timelines");
  svg.add_option("FILE", options->file, "Trace written by --trace");
  svg.add_option("-o,--output", options->output, "SVG file").type_name("FILE");
  options->common.add_without_timelines_to(svg);
  svg.add_flag("--json", options->json, "One JSON object on stdout");
  svg.footer("Example:\n  mzcache trace svg run.json -o run.svg");
  commands.push_back({&svg, [options] { return draw(*options); }});
}

}  // namespace mzcache::tools
