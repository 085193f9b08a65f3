// `mzcache bench storage`: the storage reader at its configured block and depth into unit buffers
// that have memory, beside fio with the same settings, or beside a bare loop where fio cannot run.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "commands/median.h"
#include "commands/ttft/alone.h"
#include "commands/ttft/engine.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct StorageFlags {
  CommonOptions common;
  std::string model;
  std::string repeat = "5";
  bool json = false;
};

std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// Bytes per second as fio measures them; nothing where it is not there or cannot run (huge pages of
// its own kind have to be set aside for --mem=mmaphuge).
std::optional<double> fio_rate(const Config& config, const std::string& file) {
  const std::string command = fmt::format(
      "fio --name=read --readonly --rw=read --direct=1 --ioengine=io_uring --bs={} --iodepth={} "
      "--mem=mmaphuge --filename={} --output-format=json 2>/dev/null",
      config.storage.block, config.storage.depth, quoted(file));
  FILE* pipe = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c): a fixed program
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer{};
  for (std::size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    text.append(buffer.data(), count);
  }
  if (::pclose(pipe) != 0) return std::nullopt;
  const Json report =
      Json::parse(text.substr(std::min(text.find('{'), text.size())), nullptr, false);
  if (report.is_discarded() || !report.contains("jobs") || report["jobs"].empty()) {
    return std::nullopt;
  }
  const double rate = report["jobs"][0]["read"].value("bw_bytes", 0.0);
  return rate > 0 ? std::optional(rate) : std::nullopt;
}

int run(const StorageFlags& flags) {
  need("-m", flags.model, "a GGUF file");
  const auto repeat = integer_value("--repeat", flags.repeat, 1, 1000);
  const Config config = flags.common.config();
  TtftEngine engine(config, flags.model);
  StagesAlone alone(config, engine.wiring().files(), engine.wiring().codecs(), engine.shape());
  engine.restore_all();
  engine.use(*engine::evaluation_policy("no-overlap"));  // all memory before the first read
  std::vector<double> rates;
  std::vector<double> loops;
  std::vector<double> fios;
  for (std::int64_t i = 0; i < repeat; ++i) {
    (void)engine.evict_to(0);
    const Missing missing = engine.missing();
    (void)alone.allocate(missing);
    std::uint64_t bytes = 0;
    const StageCost loop = alone.read(missing, bytes);
    alone.let_go();
    loops.push_back(static_cast<double>(bytes) * 1e3 / loop.ms);
    const RestoreReport report = engine.restore_all();
    rates.push_back(static_cast<double>(report.bytes_read) * 1e3 / report.read_ms);
    if (i > 0 && fios.empty()) continue;  // it could not run
    if (const auto rate = fio_rate(config, flags.model)) fios.push_back(*rate);
  }
  const double rate = median(rates);
  const double loop = median(loops);
  const double reference = fios.empty() ? loop : median(fios);
  const std::string name = fios.empty() ? "io_uring loop" : "fio";
  Json row = {{"bytes_per_s", rate},          {"reference_bytes_per_s", reference},
              {"ratio", rate / reference},    {"reference", name},
              {"loop_bytes_per_s", loop},     {"block_bytes", config.storage.block},
              {"depth", config.storage.depth}};
  if (flags.json) {
    print_json(
        {{"rows", Json::array({row})}, {"machine", {{"cores", ::sysconf(_SC_NPROCESSORS_ONLN)}}}});
    return kExitDone;
  }
  std::printf("reader   %8.1f MiB/s (%s x %u, into populated units)\n", rate / (1 << 20),
              human_bytes(static_cast<double>(config.storage.block)).c_str(), config.storage.depth);
  std::printf("%-8s %8.1f MiB/s\nratio    %8.3f\n", fios.empty() ? "loop" : "fio",
              reference / (1 << 20), rate / reference);
  if (fios.empty()) {
    std::printf(
        "the reference is a bare io_uring loop over the same ranges into huge pages: fio is "
        "not installed, or has no huge pages for --mem=mmaphuge (vm.nr_hugepages)\n");
  }
  return kExitDone;
}

}  // namespace

void add_bench_storage(CommandLine& group, Commands& commands) {
  auto flags = std::make_shared<StorageFlags>();
  CommandLine& command = group.add_subcommand("storage", "The reader, beside what storage can do");
  command.add_option("-m,--model", flags->model, "GGUF file, whose weights are read")
      .type_name("FILE");
  command.add_option("--repeat", flags->repeat, "Runs; the median counts")
      .show_default()
      .type_name("N");
  flags->common.add_to(command);
  command.add_flag("--json", flags->json, "One JSON object on stdout");
  command.footer(
      "Example:\n  mzcache bench storage -m models/SmolLM2-135M-Instruct.Q4_1.gguf --set "
      "storage.depth=16");
  commands.push_back({&command, [flags] { return run(*flags); }});
}

}  // namespace mzcache::tools
