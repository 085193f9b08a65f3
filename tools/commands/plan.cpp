// `mzcache plan`: what an eviction would do, and what the two restore paths would owe after it.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "mzcache/profile.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct PlanOptions {
  CommonOptions common;
  std::string model;
  std::string context = "0";
  std::string amount;
  bool json = false;
};

Json to_json(const PlanReport& report) {
  Json steps = Json::array();
  for (const auto& step : report.steps) {
    steps.push_back({{"unit", step.unit},
                     {"layer", step.layer},
                     {"chunk", step.chunk},
                     {"from", step.from},
                     {"to", step.to},
                     {"stage", step.stage},
                     {"bytes", step.bytes}});
  }
  Json json{{"footprint_bytes", report.footprint_bytes},
            {"weights_bytes", report.weights_bytes},
            {"kv_bytes", report.kv_bytes},
            {"requested_bytes", report.requested_bytes},
            {"freed_bytes", report.freed_bytes},
            {"remaining_percent", report.remaining_percent},
            {"stages",
             {{"kv_only", report.stages.kv_only},
              {"kv_and_w", report.stages.kv_and_w},
              {"w_only", report.stages.w_only},
              {"comp_kv", report.stages.comp_kv}}},
            {"restore_ms",
             {{"memory", report.restore_memory_ms}, {"storage", report.restore_storage_ms}}},
            {"steps", steps}};
  if (report.stages.out_of_window > 0) {
    json["stages"]["out_of_window"] = report.stages.out_of_window;
  }
  if (report.stages.recompute > 0) {
    json["stages"]["recompute"] = report.stages.recompute;
    json["restore_ms"]["recompute"] = report.recompute_ms;
  }
  return json;
}

std::string bytes_text(std::uint64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

// "layer 29", "layers 29 to 12": in the order they are taken.
std::string layers_text(const PlanReport::Step& first, const PlanReport::Step& last) {
  if (first.unit == "head") return "head";
  if (first.layer == last.layer) return "layer " + std::to_string(first.layer);
  return "layers " + std::to_string(first.layer) + " to " + std::to_string(last.layer);
}

// Steps of one stage that do the same to units of one kind share a line, whatever lies between:
// the stages alternate between memory and storage, chunk and layer.
void print_stage(const PlanReport& report, const std::string& stage, const char* name) {
  struct Group {
    const PlanReport::Step* first;
    const PlanReport::Step* last;
    std::uint64_t units = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Group> groups;
  for (const auto& step : report.steps) {
    if (step.stage != stage) continue;
    Group* found = nullptr;
    for (Group& group : groups) {
      if (group.first->unit == step.unit && group.first->from == step.from &&
          group.first->to == step.to) {
        found = &group;
      }
    }
    if (found == nullptr) found = &groups.emplace_back(Group{&step, &step, 0, 0});
    found->last = &step;
    ++found->units;
    found->bytes += step.bytes;
  }
  for (const Group& group : groups) {
    std::printf("%-9s %6llu %-8s %-20s %-9s %-9s %12s\n", name,
                static_cast<unsigned long long>(group.units), group.first->unit.c_str(),
                layers_text(*group.first, *group.last).c_str(), group.first->from.c_str(),
                group.first->to.c_str(), bytes_text(group.bytes).c_str());
  }
}

void print(const PlanReport& report) {
  std::printf("footprint %s: weights %s, KV %s\n", bytes_text(report.footprint_bytes).c_str(),
              bytes_text(report.weights_bytes).c_str(), bytes_text(report.kv_bytes).c_str());
  std::printf("%-9s %6s %-8s %-20s %-9s %-9s %12s\n", "stage", "units", "kind", "which", "from",
              "to", "frees");
  print_stage(report, "out_of_window", "unseen");
  print_stage(report, "recompute", "recompute");
  print_stage(report, "kv_only", "KVonly");
  print_stage(report, "kv_and_w", "KVandW");
  print_stage(report, "w_only", "Wonly");
  print_stage(report, "comp_kv", "CompKV");
  std::printf("asked %s, freed %s in %zu steps, %.1f %% remain\n",
              bytes_text(report.requested_bytes).c_str(), bytes_text(report.freed_bytes).c_str(),
              report.steps.size(), report.remaining_percent);
  std::printf("to restore: %.1f ms of decoding from memory, %.1f ms of reading from storage\n",
              report.restore_memory_ms, report.restore_storage_ms);
  if (report.recompute_ms > 0) {
    std::printf("and %.1f ms of computing again what was dropped\n", report.recompute_ms);
  }
}

int run(const PlanOptions& options) {
  need("-m", options.model, "a GGUF file");
  need("--evict", options.amount, "a size or a percentage");
  const std::uint32_t context = tokens_value("--context", options.context, 0);
  const Amount amount = amount_value("--evict", options.amount);
  const PlanReport report = plan_eviction(
      options.common.config(), options.model, context, amount, [](std::string_view notice) {
        std::fprintf(stderr, "mzcache: %.*s\n", static_cast<int>(notice.size()), notice.data());
      });
  if (options.json) {
    print_json(to_json(report));
  } else {
    print(report);
  }
  return kExitDone;
}

}  // namespace

void add_plan(CommandLine& app, Commands& commands) {
  auto options = std::make_shared<PlanOptions>();
  CommandLine& command = app.add_subcommand("plan", "Show what an eviction would do");
  command.add_option("-m,--model", options->model, "GGUF file").type_name("FILE");
  command.add_option("--context", options->context, "Tokens of the conversation (8k = 8192)")
      .show_default()
      .type_name("N");
  command.add_option("--evict", options->amount, "A size, or a share of the full footprint")
      .type_name("AMOUNT");
  command.add_flag("--json", options->json, "One JSON object on stdout");
  options->common.add_without_timelines_to(command);
  command.footer(
      "Example:\n  mzcache plan -m models/SmolLM2-135M-Instruct.Q4_1.gguf --context 4k --evict "
      "50%");
  commands.push_back({&command, [options] { return run(*options); }});
}

}  // namespace mzcache::tools
