#include "engine/rate_history.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mzcache::engine {

double median(std::deque<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

RateHistory::RateHistory(const StageRates& alone, const StageRates& busy, const StageRates& given) {
  const auto set = [&](RestoreStage stage, double StageRates::* rate) {
    given_[static_cast<std::size_t>(stage)] = given.*rate > 0;
    series(stage, DeviceLoad::kAlone).rate = given.*rate > 0 ? given.*rate : alone.*rate;
    series(stage, DeviceLoad::kBusy).rate = given.*rate > 0 ? given.*rate : busy.*rate;
  };
  set(RestoreStage::kReadModel, &StageRates::model_read);
  set(RestoreStage::kReadSwap, &StageRates::swap_read);
  set(RestoreStage::kDecode, &StageRates::decode);
  set(RestoreStage::kAllocate, &StageRates::allocate);
  set(RestoreStage::kDecodeStored, &StageRates::storage_decode);
}

bool RateHistory::add(RestoreStage stage, DeviceLoad load, double bytes, double seconds) {
  if (given(stage)) return false;
  if (!(bytes >= kBytesMin) || !(seconds > 0) || !std::isfinite(bytes / seconds)) return false;
  Series& own = series(stage, load);
  own.last.push_back(bytes / seconds);
  if (own.last.size() > kWindow) own.last.pop_front();
  if (own.last.size() < (own.rate > 0 ? kWindow : kFirstWindow)) return false;
  const double now = median(own.last);
  if (own.rate > 0 && std::abs(now - own.rate) <= kDeviation * own.rate) return false;
  own.rate = now;
  changed_ = true;
  return true;
}

StageRates RateHistory::rates(DeviceLoad load) const noexcept {
  const auto& own = series_[static_cast<std::size_t>(load)];
  return {own[static_cast<std::size_t>(RestoreStage::kReadModel)].rate,
          own[static_cast<std::size_t>(RestoreStage::kReadSwap)].rate,
          own[static_cast<std::size_t>(RestoreStage::kDecode)].rate,
          own[static_cast<std::size_t>(RestoreStage::kAllocate)].rate,
          own[static_cast<std::size_t>(RestoreStage::kDecodeStored)].rate};
}

}  // namespace mzcache::engine
