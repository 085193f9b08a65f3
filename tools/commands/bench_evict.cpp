// `mzcache bench evict`: how fast memory leaves and comes back, beside what encoding and writing
// the same bytes take alone, and beside what the policy predicted.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "client.h"
#include "command.h"
#include "commands/bench_alone.h"
#include "commands/bench_text.h"
#include "commands/median.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

struct EvictBenchOptions {
  CommonOptions common;
  std::string model;
  std::string context = "3000";
  std::string percent = "1,5,10,15,20,25,30,35,40,45,50,55,60,65,70,75,80,85,90,95,100";
  std::string repeat = "5";
  bool json = false;
};

// What one eviction and the restore after it showed.
struct Sample {
  EvictReport evict;
  RestoreReport restore;
  EvictReport clean;  // the same eviction again, with what was written before still there
  double encode_alone_ms = 0;
  double write_alone_ms = 0;
};

std::vector<double> percent_values(const std::string& text) {
  std::vector<double> values;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    values.push_back(number_value("--percent", text.substr(at, end - at), 0.01, 100));
    at = end + 1;
  }
  return values;
}

template <class Get>
double median_of(const std::vector<Sample>& samples, Get get) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Sample& sample : samples) values.push_back(static_cast<double>(get(sample)));
  return median(std::move(values));
}

class EvictBench {
 public:
  EvictBench(const Config& config, const EvictBenchOptions& options, std::uint32_t tokens)
      : client_(config),
        model_(client_.load(options.model)),
        encoding_(config.memory.codec, options.model),
        encoding_for_storage_(config.memory.storage_codec, options.model),
        writing_(config),
        tokens_(tokens) {
    SessionOptions limits;
    limits.context_tokens = tokens;
    const Session session = model_.open_session(limits);
    const auto tokenize = [this](const std::string& text) { return model_.tokenize(text); };
    client_.ask(Evaluate{session, some_text(tokenize, tokens), {tokens - 1}});
    forget_copies();
  }

  Json row(double percent, std::uint32_t repeat) {
    std::vector<Sample> samples;
    samples.reserve(repeat);
    for (std::uint32_t i = 0; i < repeat; ++i) samples.push_back(measure(percent));
    const auto ms = [&](auto get) { return median_of(samples, get); };
    const auto bytes = [&](auto get) { return static_cast<std::int64_t>(median_of(samples, get)); };
    return {
        {"context_tokens", tokens_},
        {"requested_percent", percent},
        {"freed_bytes", bytes([](const Sample& s) { return s.evict.freed_bytes; })},
        {"pss_drop_bytes", bytes([](const Sample& s) { return s.evict.pss_drop_bytes; })},
        {"remaining_percent", ms([](const Sample& s) { return s.evict.remaining_percent; })},
        {"evict_ms", ms([](const Sample& s) { return s.evict.ms; })},
        {"encode_alone_ms", ms([](const Sample& s) { return s.encode_alone_ms; })},
        {"write_alone_ms", ms([](const Sample& s) { return s.write_alone_ms; })},
        {"bytes_encoded", bytes([](const Sample& s) { return s.evict.bytes_encoded; })},
        {"bytes_written", bytes([](const Sample& s) { return s.evict.bytes_written; })},
        {"restore_ms", ms([](const Sample& s) { return s.restore.ms; })},
        {"restore_memory_ms", ms([](const Sample& s) { return s.restore.decode_ms; })},
        {"restore_storage_ms", ms([](const Sample& s) { return s.restore.read_ms; })},
        {"predicted_memory_ms", ms([](const Sample& s) { return s.evict.restore_memory_ms; })},
        {"predicted_storage_ms", ms([](const Sample& s) { return s.evict.restore_storage_ms; })},
        {"clean_ms", ms([](const Sample& s) { return s.clean.ms; })},
        {"clean_bytes_written", bytes([](const Sample& s) { return s.clean.bytes_written; })},
        {"clean_bytes_encoded", bytes([](const Sample& s) { return s.clean.bytes_encoded; })},
    };
  }

  // The last moments of the run, where a trace was asked for.
  void write_trace() { client_.write_trace(); }

  [[nodiscard]] Json machine() {
    const DeviceSummary device = client_.runtime().device();
    return {{"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
            {"device", device.name},
            {"memory", device.memory}};
  }

 private:
  void forget_copies() {
    Restore restore;
    restore.keep_copies = false;
    client_.ask(restore);
  }

  // Everything is resident, before and after, and nothing is kept of it elsewhere.
  Sample measure(double percent) {
    Sample sample;
    Amount amount;
    amount.percent = percent;
    sample.evict = client_.ask(Evict{amount});
    const std::uint64_t stored = sample.evict.storage_bytes_encoded;
    sample.encode_alone_ms = encoding_.run_ms(sample.evict.bytes_encoded - stored) +
                             encoding_for_storage_.run_ms(stored);
    sample.write_alone_ms = writing_.run_ms(sample.evict.bytes_written);
    sample.restore = client_.ask(Restore{});
    sample.clean = client_.ask(Evict{amount});
    forget_copies();
    return sample;
  }

  Client client_;
  Model model_;
  EncodingAlone encoding_;
  EncodingAlone encoding_for_storage_;
  WritingAlone writing_;
  std::uint32_t tokens_;
};

constexpr double kMiB = 1 << 20;

void print_row(const Json& row) {
  const auto value = [&](const char* key) { return row.at(key).get<double>(); };
  std::printf(
      "%7.0f %8.1f %8.1f %9.1f %8.2f %7.2f %7.2f %8.1f %8.2f %8.2f %8.2f %8.2f %8.2f %7.1f\n",
      value("requested_percent"), value("freed_bytes") / kMiB, value("pss_drop_bytes") / kMiB,
      value("remaining_percent"), value("evict_ms"), value("encode_alone_ms"),
      value("write_alone_ms"), value("bytes_written") / kMiB, value("restore_memory_ms"),
      value("predicted_memory_ms"), value("restore_storage_ms"), value("predicted_storage_ms"),
      value("clean_ms"), value("clean_bytes_written") / kMiB);
}

void print_heading() {
  std::printf("%7s %8s %8s %9s %8s %7s %7s %8s %17s %17s %8s %7s\n", "", "", "", "", "", "alone",
              "alone", "", "decoding, ms", "reading, ms", "again", "again");
  std::printf("%7s %8s %8s %9s %8s %7s %7s %8s %8s %8s %8s %8s %8s %7s\n", "evict %", "freed",
              "PSS drop", "remaining", "ms", "encode", "write", "written", "measured", "forecast",
              "measured", "forecast", "ms", "written");
}

bool within(const Json& row, const char* measured, const char* predicted) {
  const double is = row.at(measured).get<double>();
  return std::abs(row.at(predicted).get<double>() - is) <= 0.25 * is;
}

// Sizes in MiB. A path that owes nothing is no point.
void print_summary(const Json& rows) {
  std::size_t points = 0;
  std::size_t near = 0;
  std::size_t work = 0;
  std::size_t fast = 0;
  for (const Json& row : rows) {
    for (const char* path : {"memory", "storage"}) {
      const std::string measured = std::string("restore_") + path + "_ms";
      const std::string predicted = std::string("predicted_") + path + "_ms";
      if (row.at(measured).get<double>() <= 0 && row.at(predicted).get<double>() <= 0) continue;
      ++points;
      near += within(row, measured.c_str(), predicted.c_str()) ? 1U : 0U;
    }
    const double alone =
        std::max(row.at("encode_alone_ms").get<double>(), row.at("write_alone_ms").get<double>());
    if (alone <= 0) continue;
    ++work;
    fast += row.at("evict_ms").get<double>() <= 1.25 * alone ? 1U : 0U;
  }
  std::printf("sizes in MiB; forecast within 25 %% of measured at %zu of %zu points\n", near,
              points);
  std::printf("evict within 1.25 x the longer of encoding and writing alone in %zu of %zu rows\n",
              fast, work);
}

int run(const EvictBenchOptions& options) {
  need("-m", options.model, "a GGUF file");
  const std::uint32_t tokens = tokens_value("--context", options.context, 1);
  const std::vector<double> percents = percent_values(options.percent);
  const auto repeat =
      static_cast<std::uint32_t>(integer_value("--repeat", options.repeat, 1, 1000));
  EvictBench bench(options.common.config(), options, tokens);
  if (!options.json) print_heading();
  Json rows = Json::array();
  for (const double percent : percents) {
    rows.push_back(bench.row(percent, repeat));
    if (!options.json) print_row(rows.back());
  }
  bench.write_trace();
  if (options.json) {
    print_json({{"rows", rows}, {"machine", bench.machine()}});
  } else {
    print_summary(rows);
  }
  return kExitDone;
}

}  // namespace

void add_bench_evict(CommandLine& group, Commands& commands) {
  auto options = std::make_shared<EvictBenchOptions>();
  CommandLine& command = group.add_subcommand("evict", "Memory given back, and brought back");
  command.add_option("-m,--model", options->model, "GGUF file").type_name("FILE");
  command.add_option("--context", options->context, "Tokens of context (8k = 8192)")
      .show_default()
      .type_name("N");
  command.add_option("--percent", options->percent, "Shares of the footprint to evict, a row each")
      .show_default()
      .type_name("P,P,…");
  command.add_option("--repeat", options->repeat, "Runs of each; the median counts")
      .show_default()
      .type_name("N");
  options->common.add_to(command);
  command.add_flag("--json", options->json, "One JSON object on stdout");
  command.footer(
      "Example:\n  mzcache bench evict -m models/SmolLM2-135M-Instruct.Q4_1.gguf --percent "
      "25,50,75");
  commands.push_back({&command, [options] { return run(*options); }});
}

}  // namespace mzcache::tools
