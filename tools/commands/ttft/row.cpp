#include "commands/ttft/row.h"

#include <algorithm>
#include <cstdio>

#include "commands/median.h"

namespace mzcache::tools {
namespace {

constexpr double kMiB = 1 << 20;

template <class Get>
double median_of(const TtftRow& row, Get get) {
  std::vector<double> values;
  values.reserve(row.samples.size());
  for (const TtftSample& sample : row.samples) values.push_back(static_cast<double>(get(sample)));
  return median(std::move(values));
}

Json bound_json(const TtftRow& row, double in_memory_ms, double ttft_ms) {
  const auto work = [in_memory_ms](const TtftSample& sample) {
    RestoreWork filled = sample.work;
    filled.in_memory_ms = in_memory_ms;
    return filled;
  };
  const auto tail = [](const TtftSample& s) { return std::max(0.0, s.ttft_ms - s.restore.ms); };
  const double bound = median_of(row, [&](const auto& s) { return bound_ms(work(s)); });
  const double with_tail =
      median_of(row, [&](const auto& s) { return bound_with_tail_ms(work(s), tail(s)); });
  const double contended = median_of(row, [&](const TtftSample& s) {
    return contended_bound_ms({s.restore.read_ms, in_memory_ms, s.cpu_ms, s.work.cores});
  });
  return {{"raw_read_ms", median_of(row, [](const auto& s) { return s.work.raw_read_ms; })},
          {"raw_read_bytes_per_s", median_of(row,
                                             [](const TtftSample& s) {
                                               return s.work.raw_read_ms > 0
                                                          ? static_cast<double>(s.raw_bytes_read) *
                                                                1e3 / s.work.raw_read_ms
                                                          : 0;
                                             })},
          {"allocate_cpu_ms", median_of(row, [](const auto& s) { return s.work.allocate_cpu_ms; })},
          {"read_cpu_ms", median_of(row, [](const auto& s) { return s.work.read_cpu_ms; })},
          {"decode_cpu_ms", median_of(row, [](const auto& s) { return s.work.decode_cpu_ms; })},
          {"bound_ms", bound},
          {"bound_with_tail_ms", with_tail},
          {"contended_bound_ms", contended},
          {"efficiency", bound / ttft_ms},
          {"efficiency_with_tail", with_tail / ttft_ms}};
}

// Of encoded chunks; null where there is none.
Json saved_percent(const TtftRow& row) {
  const TtftSample& sample = row.samples.front();
  if (sample.raw_chunk_bytes == 0) return nullptr;
  return 100.0 * (1 - static_cast<double>(sample.encoded_chunk_bytes) /
                          static_cast<double>(sample.raw_chunk_bytes));
}

}  // namespace

double median_ttft_ms(const TtftRow& row) {
  return median_of(row, [](const auto& s) { return s.ttft_ms; });
}

Json to_json(const TtftRow& row, const TtftReferences& references) {
  const auto value = [&](auto get) { return median_of(row, get); };
  Json json = {{"context_tokens", row.context_tokens},
               {"remaining_percent", value([](const auto& s) { return s.remaining_percent; })},
               {"asked_percent", row.asked_percent},
               {"policy", row.policy},
               {"reachable", row.reachable}};
  if (!row.reachable) return json;
  const double ttft = median_ttft_ms(row);
  const auto [least, most] = std::minmax_element(
      row.samples.begin(), row.samples.end(),
      [](const TtftSample& a, const TtftSample& b) { return a.ttft_ms < b.ttft_ms; });
  json["ttft_ms"] = ttft;
  json["ttft_min_ms"] = least->ttft_ms;
  json["ttft_max_ms"] = most->ttft_ms;
  json["allocate_ms"] = value([](const auto& s) { return s.restore.allocate_ms; });
  json["read_ms"] = value([](const auto& s) { return s.restore.read_ms; });
  json["decode_ms"] = value([](const auto& s) { return s.restore.decode_ms; });
  json["restore_ms"] = value([](const auto& s) { return s.restore.ms; });
  json["compute_ms"] = value([](const auto& s) { return s.compute_ms; });
  json["wait_ms"] = value([](const auto& s) { return s.restore.wait_ms; });
  json["idle_ms"] = value([](const auto& s) { return s.idle_ms; });
  json["cpu_ms"] = value([](const auto& s) { return s.cpu_ms; });
  json["system_cpu_ms"] = value([](const auto& s) { return s.system_cpu_ms; });
  json["bytes_read"] =
      static_cast<std::uint64_t>(value([](const auto& s) { return s.restore.bytes_read; }));
  json["bytes_decoded"] =
      static_cast<std::uint64_t>(value([](const auto& s) { return s.restore.bytes_decoded; }));
  json["saved_percent"] = saved_percent(row);
  json["in_memory_ms"] = references.in_memory_ms;
  json["in_memory_best_ms"] = references.in_memory_best_ms;
  json["in_memory_ratio"] = ttft / references.in_memory_ms;
  json["partial_offload_ms"] =
      references.partial_offload_ms > 0 ? Json(references.partial_offload_ms) : Json(nullptr);
  json["speed_up"] = references.partial_offload_ms > 0 ? Json(references.partial_offload_ms / ttft)
                                                       : Json(nullptr);
  json.update(bound_json(row, references.in_memory_ms, ttft));
  json["partial_offload_bound_ratio"] =
      references.partial_offload_ms > 0
          ? Json(references.partial_offload_ms / json["bound_ms"].get<double>())
          : Json(nullptr);
  return json;
}

void print_ttft_heading() {
  std::printf(
      "%7s %6s %-17s %8s %17s %7s %7s %7s %7s %7s %6s %7s %7s %6s %6s %6s %8s %6s %8s %7s\n",
      "context", "left %", "policy", "ttft ms", "range", "alloc", "read", "decode", "compute",
      "wait", "idle", "MiB rd", "MiB dec", "saved", "x mem", "x p.o.", "bound", "effic.",
      "contend.", "sys cpu");
}

void print_ttft_row(const Json& row) {
  const auto value = [&](const char* key) {
    const auto found = row.find(key);
    return found != row.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const std::string policy = row.at("policy").get<std::string>();
  if (!row.at("reachable").get<bool>()) {
    std::printf("%7.0f %6.0f %-17s not reachable (%.1f %% remain)\n", value("context_tokens"),
                value("asked_percent"), policy.c_str(), value("remaining_percent"));
    return;
  }
  std::printf(
      "%7.0f %6.1f %-17s %8.1f %8.1f-%8.1f %7.1f %7.1f %7.1f %7.1f %7.1f %6.1f %7.0f %7.0f %6.1f "
      "%6.2f %6.2f %8.1f %6.3f %8.1f %7.0f\n",
      value("context_tokens"), value("remaining_percent"), policy.c_str(), value("ttft_ms"),
      value("ttft_min_ms"), value("ttft_max_ms"), value("allocate_ms"), value("read_ms"),
      value("decode_ms"), value("compute_ms"), value("wait_ms"), value("idle_ms"),
      value("bytes_read") / kMiB, value("bytes_decoded") / kMiB, value("saved_percent"),
      value("in_memory_ratio"), value("speed_up"), value("bound_ms"), value("efficiency"),
      value("contended_bound_ms"), value("system_cpu_ms"));
}

}  // namespace mzcache::tools
