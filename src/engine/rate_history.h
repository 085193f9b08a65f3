// Runtime adaptation (the paper's future work): what restores really achieved, against what the
// profile says. A phone that grows hot reads and decodes more slowly than when it was measured; the
// profile then follows, so that both restore paths keep owing equal time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace mzcache::engine {

// Bytes per second of the stages of a restore; 0: not known.
struct StageRates {
  double model_read = 0;      // the model file into fresh unit buffers
  double swap_read = 0;       // the swap file into fresh unit buffers
  double decode = 0;          // decoded (FP16) bytes, all workers together
  double allocate = 0;        // all workers together
  double storage_decode = 0;  // decoded bytes of what the codec for storage encoded, likewise

  friend bool operator==(const StageRates&, const StageRates&) = default;
};

enum class RestoreStage : std::uint8_t { kReadModel, kReadSwap, kDecode, kAllocate, kDecodeStored };
// Whether the device computed meanwhile. Like is compared with like: on devices that share the
// processor's cores or memory bandwidth the two differ by far more than any drift.
enum class DeviceLoad : std::uint8_t { kAlone, kBusy };

// Owned by one actor; not thread-safe.
class RateHistory {
 public:
  static constexpr std::size_t kWindow = 10;      // restores that are looked at
  static constexpr double kDeviation = 0.30;      // the profile bears this much
  static constexpr std::size_t kFirstWindow = 3;  // enough where there is no figure at all
  // A restore that moved less says more about latencies than about rates.
  static constexpr double kBytesMin = 4.0 * 1024 * 1024;

  // Figures that the configuration gave (not 0) stand in for both, and are never replaced.
  explicit RateHistory(const StageRates& alone = {}, const StageRates& busy = {},
                       const StageRates& given = {});

  // One restore: what the stage moved in the time it had work. Replaces the figure where the median
  // of the last kWindow differs by more than kDeviation of it; fills in a missing one after
  // kFirstWindow. True where a figure changed.
  bool add(RestoreStage stage, DeviceLoad load, double bytes, double seconds);

  [[nodiscard]] StageRates rates(DeviceLoad load) const noexcept;
  [[nodiscard]] bool given(RestoreStage stage) const noexcept {
    return given_[static_cast<std::size_t>(stage)];
  }
  // Whether anything was replaced since the start.
  [[nodiscard]] bool changed() const noexcept { return changed_; }

 private:
  struct Series {
    double rate = 0;
    std::deque<double> last;
  };
  static constexpr std::size_t kStages = 5;
  [[nodiscard]] Series& series(RestoreStage stage, DeviceLoad load) noexcept {
    return series_[static_cast<std::size_t>(load)][static_cast<std::size_t>(stage)];
  }

  std::array<std::array<Series, kStages>, 2> series_;  // by load, by stage
  std::array<bool, kStages> given_{};
  bool changed_ = false;
};

// The middle value, or the mean of the middle two; 0 where there is none.
[[nodiscard]] double median(std::deque<double> values);

}  // namespace mzcache::engine
