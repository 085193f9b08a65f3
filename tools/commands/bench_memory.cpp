// `mzcache bench memory`: memory given to units by all allocators, beside a bare loop that
// populates huge pages on as many threads; and what leaves the process when units leave, beside the
// report.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "command.h"
#include "commands/median.h"
#include "commands/ttft/engine.h"
#include "gpu/unit_memory_pages.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct MemoryFlags {
  CommonOptions common;
  std::string model;
  std::string context = "2k";
  std::string repeat = "5";
  bool json = false;
};

// So many bytes as huge pages, shared out among threads.
double populate_rate(std::uint64_t bytes, std::uint32_t threads, bool huge) {
  const std::uint64_t share = actors::align_up(bytes / threads, gpu::kHugePageBytes);
  std::vector<gpu::PageReservation> parts;
  parts.reserve(threads);
  for (std::uint32_t i = 0; i < threads; ++i) {
    parts.push_back(value_or_throw(gpu::PageReservation::create(share)));
  }
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  workers.reserve(threads);
  for (auto& part : parts) {
    workers.emplace_back(
        [&part, huge] { (void)gpu::populate_pages(part.data(), part.bytes(), huge, {}); });
  }
  for (auto& worker : workers) worker.join();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(share * threads) / time.count();
}

int run(const MemoryFlags& flags) {
  need("-m", flags.model, "a GGUF file");
  const auto repeat = integer_value("--repeat", flags.repeat, 1, 1000);
  const std::uint32_t tokens = tokens_value("--context", flags.context, 1);
  const Config config = flags.common.config();
  const std::uint32_t workers =
      engine::worker_count(engine::to_placement(config.placement), actors::ActorKind::kAllocator);
  TtftEngine engine(config, flags.model);
  engine.plant(tokens);
  engine.use(*engine::evaluation_policy("no-overlap"));  // memory alone, before the first read
  std::vector<double> rates;
  std::vector<double> references;
  std::vector<double> drops;
  std::uint64_t freed = 0;
  for (std::int64_t i = 0; i < repeat; ++i) {
    const std::uint64_t before = gpu::process_pss_bytes();
    const EvictReport evicted = engine.evict_to(0);
    const std::uint64_t after = gpu::process_pss_bytes();
    freed = evicted.freed_bytes;
    drops.push_back(static_cast<double>(before) - static_cast<double>(after));
    // The same memory warm for both: whoever comes second finds what the first gave back.
    (void)populate_rate(freed, workers, config.memory.huge_pages);
    references.push_back(populate_rate(freed, workers, config.memory.huge_pages));
    const RestoreReport report = engine.restore_all();
    rates.push_back(static_cast<double>(report.bytes_allocated) * 1e3 * workers /
                    report.allocate_ms);
  }
  const double rate = median(rates);
  const double reference = median(references);
  const double drop = median(drops);
  Json row = {{"bytes_per_s", rate},
              {"reference_bytes_per_s", reference},
              {"ratio", rate / reference},
              {"workers", workers},
              {"freed_bytes", freed},
              {"pss_drop_bytes", drop},
              {"pss_ratio", drop / static_cast<double>(freed)}};
  if (flags.json) {
    print_json(
        {{"rows", Json::array({row})}, {"machine", {{"cores", ::sysconf(_SC_NPROCESSORS_ONLN)}}}});
    return kExitDone;
  }
  std::printf("units       %6.2f GB/s, %u allocator%s\n", rate / 1e9, workers,
              workers == 1 ? "" : "s");
  std::printf("bare loop   %6.2f GB/s, as many threads\nratio       %6.3f\n", reference / 1e9,
              rate / reference);
  std::printf("evicted     %s by the report, %s by PSS: %.3f\n",
              human_bytes(static_cast<double>(freed)).c_str(), human_bytes(drop).c_str(),
              drop / static_cast<double>(freed));
  return kExitDone;
}

}  // namespace

void add_bench_memory(CommandLine& group, Commands& commands) {
  auto flags = std::make_shared<MemoryFlags>();
  CommandLine& command = group.add_subcommand("memory", "Memory given to units, and taken back");
  command.add_option("-m,--model", flags->model, "GGUF file").type_name("FILE");
  command.add_option("--context", flags->context, "Tokens of context beside the weights")
      .show_default()
      .type_name("N");
  command.add_option("--repeat", flags->repeat, "Runs; the median counts")
      .show_default()
      .type_name("N");
  flags->common.add_to(command);
  command.add_flag("--json", flags->json, "One JSON object on stdout");
  command.footer("Example:\n  mzcache bench memory -m models/SmolLM2-135M-Instruct.Q4_1.gguf");
  commands.push_back({&command, [flags] { return run(*flags); }});
}

}  // namespace mzcache::tools
