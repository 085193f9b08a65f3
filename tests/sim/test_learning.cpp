// The engine follows what its restores achieve.
#include "sim/sim_world.h"
#include "support/catch.h"

using namespace mzcache;

namespace {

RestoreReport restored(double read_rate, double decode_rate, double overlap_percent) {
  RestoreReport report;
  report.bytes_read = report.bytes_decoded = report.bytes_allocated = 100'000'000;
  report.read_ms = 1e11 / read_rate;
  report.decode_ms = 1e11 / decode_rate;
  report.allocate_ms = 1e11 / 20e9;
  // And as many decoded by the other codec, at half the rate.
  report.storage_bytes_decoded = report.bytes_decoded;
  report.bytes_decoded *= 2;
  report.storage_decode_ms = report.decode_ms * 2;
  report.decode_ms += report.storage_decode_ms;
  // As many bytes again of the swap file, at half the rate.
  report.swap_bytes_read = report.bytes_read;
  report.bytes_read *= 2;
  report.swap_read_ms = report.read_ms * 2;
  report.read_ms += report.swap_read_ms;
  report.overlap_percent = overlap_percent;
  report.ms = report.read_ms;
  return report;
}

}  // namespace

TEST_CASE("ten slow restores change what plans are made with") {
  engine::EngineOptions options;
  options.decompressors = 2;
  sim::MachineOptions machine;
  machine.storage_codec = true;
  sim::World world(1, {}, machine, options, {1, 2, 1});
  engine::EngineState& state = world.state();
  state.profile = {2e9, 2e9, 6e9, 20e9, 0};
  state.rates = engine::RateHistory({2e9, 2e9, 6e9, 20e9});
  // Beside the device, or half beside it: another figure, or none.
  for (int i = 0; i < 20; ++i) state.learn(restored(0.5e9, 1e9, 90));
  for (int i = 0; i < 20; ++i) state.learn(restored(0.5e9, 1e9, 30));
  CHECK(state.profile.model_read_bytes_per_s == 2e9);
  CHECK(state.rates.rates(engine::DeviceLoad::kBusy).model_read == Approx(0.5e9));
  for (int i = 0; i < 9; ++i) state.learn(restored(1e9, 1e9, 0));
  CHECK(state.profile.model_read_bytes_per_s == 2e9);
  state.learn(restored(1e9, 1e9, 0));
  CHECK(state.profile.model_read_bytes_per_s == Approx(1e9));
  CHECK(state.profile.swap_read_bytes_per_s == Approx(0.5e9));
  // Busy times are sums over workers, rates are those of all workers.
  CHECK(state.profile.decode_bytes_per_s == Approx(2e9));
  CHECK(state.profile.storage_decode_bytes_per_s == Approx(1e9));
  CHECK(state.profile.allocate_bytes_per_s == 20e9);
}
