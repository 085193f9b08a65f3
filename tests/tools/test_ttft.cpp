// The benchmark of restores: its bound, its rows, and the contexts it draws.
#include <cmath>

#include "codec/chunk_values.h"
#include "codec/half.h"
#include "commands/ttft/bound.h"
#include "commands/ttft/idle.h"
#include "commands/ttft/kv_statistics.h"
#include "commands/ttft/row.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::tools;

namespace {

RestoreWork some_work() {
  RestoreWork work;
  work.raw_read_ms = 300;
  work.in_memory_ms = 180;
  work.decode_cpu_ms = 60;
  work.allocate_cpu_ms = 50;
  work.read_cpu_ms = 10;
  work.cores = 2;
  work.device_on_cores = true;
  return work;
}

actors::SpanRecord span(actors::Stage stage, int begin_ms, int end_ms, actors::UnitId unit,
                        const char* name = "") {
  actors::SpanRecord span;
  span.stage = stage;
  span.name = name;
  span.begin = std::chrono::milliseconds(begin_ms);
  span.end = std::chrono::milliseconds(end_ms);
  span.unit = unit;
  span.has_unit = true;
  return span;
}
actors::SpanRecord count(const char* name, int at_ms, std::uint64_t value) {
  actors::SpanRecord sample = span(actors::Stage::kHandler, at_ms, at_ms, {}, name);
  sample.counter = true;
  sample.bytes = value;
  return sample;
}
double idle_ms(const std::vector<actors::SpanRecord>& spans) {
  return static_cast<double>(idle_time(spans, 2).count()) * 1e-6;
}

}  // namespace

TEST_CASE("Idle is a wait for a stage that could have been at work", "[ttft]") {
  using actors::Stage;
  const actors::UnitId weights = actors::weights_unit(0);
  const actors::UnitId chunk = actors::kv_unit(1, 0, 0);
  // Weights: allocated from 2 to 4, with the reader at 5, read until 20, computed from 21 on.
  std::vector<actors::SpanRecord> spans{span(Stage::kWait, 0, 21, weights),
                                        span(Stage::kAllocate, 2, 4, weights),
                                        span(Stage::kHandler, 5, 5, weights, "ReadUnit"),
                                        count(actors::kReadsInFlight, 5, 2),
                                        count(actors::kReadsLeft, 5, 1),
                                        span(Stage::kRead, 5, 20, weights),
                                        span(Stage::kCompute, 21, 22, weights)};
  // Before and after the allocator, and until the device knew; the reader was at its depth.
  CHECK(idle_ms(spans) == 2 + 1 + 1);
  spans.push_back(count(actors::kReadsInFlight, 10, 1));  // below it with something left
  spans.push_back(count(actors::kReadsLeft, 13, 0));      // below it at the end
  CHECK(idle_ms(spans) == 4 + 3);
  // Then the layer's KV, which the in-memory swap has: a decoder begins late.
  spans.push_back(span(Stage::kWait, 22, 40, weights));
  spans.push_back(span(Stage::kDecode, 27, 40, chunk, "AllocateUnits"));
  spans.push_back(span(Stage::kCompute, 40, 41, weights));
  CHECK(idle_ms(spans) == 7 + 5);
  // And one that lies encoded in the swap file.
  spans.push_back(span(Stage::kHandler, 22, 22, chunk, "ReadUnit"));
  spans.push_back(span(Stage::kRead, 22, 25, chunk));
  CHECK(idle_ms(spans) == 7 + 2);
}

TEST_CASE("The bound is the longest of storage, device and cores", "[ttft]") {
  RestoreWork work = some_work();
  CHECK(bound_ms(work) == 300);
  work.raw_read_ms = 100;
  CHECK(bound_ms(work) == 180 + (60 + 50 + 10) / 2.0);
  work.device_on_cores = false;  // its work is not the cores'
  CHECK(bound_ms(work) == 180);
  work.decode_cpu_ms = 500;
  CHECK(bound_ms(work) == (500 + 50 + 10) / 2.0);
}

TEST_CASE("Compute after the last byte counts only behind storage", "[ttft]") {
  RestoreWork work = some_work();
  CHECK(bound_with_tail_ms(work, 7) == 307);
  work.raw_read_ms = 100;
  CHECK(bound_with_tail_ms(work, 7) == bound_ms(work));
}

TEST_CASE("The contended bound takes figures of the run itself", "[ttft]") {
  CHECK(contended_bound_ms({320, 180, 500, 2}) == 320);
  CHECK(contended_bound_ms({100, 180, 500, 2}) == 250);
  CHECK(contended_bound_ms({100, 180, 300, 2}) == 180);
}

TEST_CASE("A row shows medians beside its references", "[ttft]") {
  TtftRow row{8192, 50, "mzcache", true, {}};
  for (const double ttft : {420.0, 400.0, 410.0}) {
    TtftSample sample;
    sample.remaining_percent = 49.5;
    sample.ttft_ms = ttft;
    sample.compute_ms = ttft - 101;
    sample.restore.ms = ttft - 20;
    sample.restore.wait_ms = 100;
    sample.restore.bytes_read = 1000;
    sample.work = some_work();
    sample.work.raw_read_ms = 328;
    sample.raw_bytes_read = 1000;
    sample.raw_chunk_bytes = 200;
    sample.encoded_chunk_bytes = 106;
    row.samples.push_back(sample);
  }
  const Json json = to_json(row, {180, 160, 820});
  CHECK(json.at("ttft_ms") == 410);
  CHECK(json.at("ttft_min_ms") == 400);
  CHECK(json.at("ttft_max_ms") == 420);
  CHECK(json.at("compute_ms") == 309);
  CHECK(json.at("bound_ms") == 328);
  CHECK(json.at("efficiency") == 0.8);
  CHECK(json.at("bound_with_tail_ms") == 348);
  CHECK(json.at("speed_up") == 2);
  CHECK(json.at("partial_offload_bound_ratio") == 2.5);
  CHECK(json.at("in_memory_ms") == 180);
  CHECK(json.at("in_memory_best_ms") == 160);
  CHECK(std::abs(json.at("saved_percent").get<double>() - 47) < 1e-9);
  CHECK(to_json(row, {180, 160, 0}).at("speed_up").is_null());
}

TEST_CASE("A level that cannot be reached has no times", "[ttft]") {
  TtftRow row{8192, 0, "memory-only", false, {}};
  row.samples.emplace_back().remaining_percent = 24;
  const Json json = to_json(row, {180, 160, 820});
  CHECK(json.at("reachable") == false);
  CHECK(json.at("remaining_percent") == 24);
  CHECK_FALSE(json.contains("ttft_ms"));
}

TEST_CASE("Drawn keys and values have the table's means and spreads", "[ttft]") {
  actors::KvShape shape;
  shape.layout = {actors::ChunkLayout::Order::kTiled, 3, 64, actors::kChunkTokens};
  actors::RopeDescription rope;
  rope.dimensions = 64;
  shape.ropes = {rope, rope};
  const KvStatistics& table = recorded_statistics();
  REQUIRE(table.layers.size() > 1);
  RandomKv draw(table, shape, 3);
  StatisticsRecorder recorder(shape, 1);
  std::vector<std::byte> chunk(shape.layout.bytes());
  double sum = 0;
  double expected = 0;
  double error = 0;
  for (std::uint32_t number = 0; number < 8; ++number) {
    const auto unit = actors::kv_unit(0, 0, number);
    draw.fill(shape.view<std::byte>(unit, 256, chunk));
    for (std::uint32_t token = number == 0 ? 1 : 0; token < 256; ++token) {
      for (std::uint32_t c = 0; c < 192; ++c) {
        const auto index = shape.layout.values_per_half() + codec::v_index(shape.layout, token, c);
        const float value = codec::half_to_float(codec::load_half(chunk.data() + 2 * index));
        REQUIRE(std::isfinite(value));
        sum += std::abs(double{value});
      }
    }
  }
  // What is known exactly: the first token, as recorded (position 0 is not rotated).
  const auto unit = actors::kv_unit(0, 0, 0);
  draw.fill(shape.view<std::byte>(unit, 256, chunk));
  for (std::uint32_t c = 0; c < 192; ++c) {
    const auto index = codec::k_index(shape.layout, 0, c);
    const float value = codec::half_to_float(codec::load_half(chunk.data() + 2 * index));
    expected += std::abs(double{table.layers[0].k_first[c]});
    error += std::abs(double{value} - double{table.layers[0].k_first[c]});
  }
  CHECK(sum > 0);
  CHECK(expected > 0);
  CHECK(error < 1e-3 * expected);
  recorder.add(shape.view<const std::byte>(unit, 256, chunk));
  CHECK(recorder.table(1).find("kRecordedHeadDim = 64") != std::string::npos);
}
