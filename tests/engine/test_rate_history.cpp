// What restores teach: medians of ten, like compared with like.
#include <initializer_list>

#include "engine/rate_history.h"
#include "support/catch.h"

using namespace mzcache::engine;

namespace {

constexpr double kBytes = 64.0 * 1024 * 1024;

void add_rate(RateHistory& history, RestoreStage stage, DeviceLoad load, double rate,
              int times = 1) {
  for (int i = 0; i < times; ++i) history.add(stage, load, kBytes, kBytes / rate);
}

}  // namespace

TEST_CASE("a rate within 30 % of the profile's changes nothing") {
  RateHistory history({1e9, 1.5e9, 5e9, 2e9});
  add_rate(history, RestoreStage::kReadModel, DeviceLoad::kAlone, 1.29e9, 40);
  add_rate(history, RestoreStage::kReadModel, DeviceLoad::kAlone, 0.71e9, 40);
  CHECK(history.rates(DeviceLoad::kAlone) == StageRates{1e9, 1.5e9, 5e9, 2e9});
  CHECK_FALSE(history.changed());
}

TEST_CASE("ten restores replace a rate, nine do not") {
  for (const double rate : {0.5e9, 1.5e9}) {
    RateHistory history({1e9, 1.5e9, 5e9, 2e9});
    add_rate(history, RestoreStage::kReadModel, DeviceLoad::kAlone, rate, 9);
    CHECK(history.rates(DeviceLoad::kAlone).model_read == 1e9);
    add_rate(history, RestoreStage::kReadModel, DeviceLoad::kAlone, rate);
    CHECK(history.rates(DeviceLoad::kAlone).model_read == Approx(rate));
    CHECK(history.rates(DeviceLoad::kAlone).decode == 5e9);
    CHECK(history.changed());
  }
}

TEST_CASE("it is the median of the last ten that counts") {
  RateHistory history({1e9, 1.5e9, 5e9, 2e9});
  // Four outliers of ten move a mean, not the median.
  add_rate(history, RestoreStage::kDecode, DeviceLoad::kAlone, 5e9, 6);
  add_rate(history, RestoreStage::kDecode, DeviceLoad::kAlone, 50e9, 4);
  CHECK(history.rates(DeviceLoad::kAlone).decode == 5e9);
  // Older ones are forgotten: six slow ones in the last ten are enough.
  add_rate(history, RestoreStage::kDecode, DeviceLoad::kAlone, 2e9, 6);
  CHECK(history.rates(DeviceLoad::kAlone).decode == Approx(2e9));
}

TEST_CASE("alone and beside the device are apart") {
  RateHistory history({1e9, 1.5e9, 5e9, 2e9}, {0.5e9, 0.6e9, 2e9, 1e9});
  add_rate(history, RestoreStage::kReadModel, DeviceLoad::kBusy, 0.1e9, 10);
  CHECK(history.rates(DeviceLoad::kBusy).model_read == Approx(0.1e9));
  CHECK(history.rates(DeviceLoad::kAlone).model_read == 1e9);
  CHECK(history.rates(DeviceLoad::kBusy).decode == 2e9);
}

TEST_CASE("a missing figure is filled in by the third restore") {
  RateHistory history({1e9, 1.5e9, 5e9, 2e9});
  add_rate(history, RestoreStage::kDecode, DeviceLoad::kBusy, 3e9, 2);
  CHECK(history.rates(DeviceLoad::kBusy).decode == 0);
  CHECK_FALSE(history.changed());
  add_rate(history, RestoreStage::kDecode, DeviceLoad::kBusy, 3e9);
  CHECK(history.rates(DeviceLoad::kBusy).decode == Approx(3e9));
}

TEST_CASE("given figures stay") {
  RateHistory history({1e9, 1.5e9, 5e9, 2e9}, {}, {7e9, 7e9, 0, 0});
  add_rate(history, RestoreStage::kReadModel, DeviceLoad::kAlone, 1e9, 20);
  add_rate(history, RestoreStage::kDecode, DeviceLoad::kAlone, 1e9, 20);
  CHECK(history.rates(DeviceLoad::kAlone).model_read == 7e9);
  CHECK(history.rates(DeviceLoad::kBusy).model_read == 7e9);
  CHECK(history.rates(DeviceLoad::kAlone).decode == Approx(1e9));
  CHECK(history.given(RestoreStage::kReadModel));
  CHECK_FALSE(history.given(RestoreStage::kDecode));
}

TEST_CASE("restores that say nothing are not counted") {
  RateHistory history({1e9, 1.5e9, 5e9, 2e9});
  for (int i = 0; i < 30; ++i) {
    history.add(RestoreStage::kReadModel, DeviceLoad::kAlone, RateHistory::kBytesMin - 1, 1.0);
    history.add(RestoreStage::kReadModel, DeviceLoad::kAlone, kBytes, 0.0);
    history.add(RestoreStage::kReadModel, DeviceLoad::kAlone, kBytes, -1.0);
    history.add(RestoreStage::kReadModel, DeviceLoad::kAlone, 0, 0);
  }
  CHECK_FALSE(history.changed());
  CHECK(history.rates(DeviceLoad::kAlone).model_read == 1e9);
}

TEST_CASE("the two files are apart") {
  RateHistory history({1e9, 1.5e9, 5e9, 2e9});
  add_rate(history, RestoreStage::kReadSwap, DeviceLoad::kAlone, 0.4e9, 10);
  CHECK(history.rates(DeviceLoad::kAlone).swap_read == Approx(0.4e9));
  CHECK(history.rates(DeviceLoad::kAlone).model_read == 1e9);
}

TEST_CASE("medians") {
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({9, 1}) == 5);
  CHECK(median({9, 1, 4}) == 4);
}
