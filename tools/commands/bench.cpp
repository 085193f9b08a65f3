// `mzcache bench`: one table each, with its reference measured in the same run.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#ifdef MZCACHE_HAVE_BENCH
#include "bench/mailbox.h"
#endif
#include "command.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct BenchOptions {
  CommonOptions common;
  std::string repeat = "5";
  bool json = false;
};

#ifdef MZCACHE_HAVE_BENCH
int mailbox(const BenchOptions& options) {
  const auto repeat = integer_value("--repeat", options.repeat, 1, 1000);
  static_cast<void>(options.common.config());  // what is wrong in it is wrong here too
  const auto rows = bench::bench_mailbox(static_cast<std::uint32_t>(repeat));
  if (options.json) {
    Json list = Json::array();
    for (const auto& row : rows) {
      list.push_back({{"implementation", row.implementation},
                      {"producers", row.producers},
                      {"messages_per_s", row.messages_per_s},
                      {"wake_us", row.wake_us}});
    }
    print_json({{"rows", list}, {"machine", {{"cores", ::sysconf(_SC_NPROCESSORS_ONLN)}}}});
    return kExitDone;
  }
  std::printf("%-16s %9s %16s %9s\n", "implementation", "producers", "messages/s", "wake us");
  for (const auto& row : rows) {
    std::printf("%-16s %9u %16.0f %9.2f\n", row.implementation.c_str(), row.producers,
                row.messages_per_s, row.wake_us);
  }
  return kExitDone;
}
#else
int mailbox(const BenchOptions&) {
  throw Exception(Error{ErrorCode::kUnsupported, 0, "bench mailbox",
                        "built without benchmarks; configure with -DMZCACHE_BENCH=ON"});
}
#endif

}  // namespace

void add_bench(CommandLine& app, Commands& commands) {
  CommandLine& group = app.add_subcommand("bench", "Measure one thing, beside its reference");
  group.footer("Example:\n  mzcache bench mailbox --repeat 5");

  auto options = std::make_shared<BenchOptions>();
  CommandLine& command = group.add_subcommand("mailbox", "Messages per second and wake latency");
  command.add_option("--repeat", options->repeat, "Runs; the median counts")
      .show_default()
      .type_name("N");
  options->common.add_without_timelines_to(command);
  command.add_flag("--json", options->json, "One JSON object on stdout");
  command.footer("Example:\n  mzcache bench mailbox --repeat 5 --json");
  commands.push_back({&command, [options] { return mailbox(*options); }});

  add_bench_ttft(group, commands);
  add_bench_evict(group, commands);
  add_bench_codec(group, commands);
  add_bench_compute(group, commands);
  add_bench_storage(group, commands);
  add_bench_memory(group, commands);
}

}  // namespace mzcache::tools
