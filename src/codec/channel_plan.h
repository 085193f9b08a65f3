// Steps, means and table classes of a layer, made from a profile.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "codec/channel_quantiser.h"
#include "codec/kv_profile.h"

namespace mzcache::codec {

// τ and t: K's steps are τ/√E[q²], V's t of its token's rms.
struct QuantiserSteps {
  float tau = 0;
  float t = 0;
};

struct LayerPlan {
  LayerPlan(const LayerProfile& profile, std::uint32_t kv_heads, std::uint32_t head_dim,
            const QuantiserSteps& steps);
  [[nodiscard]] ChannelPlan view() const;

  std::vector<float> k_mean, k_step, k_inverse;
  std::vector<float> v_mean;          // [head][block][lane]
  std::vector<std::uint8_t> k_class;  // of rANS tables
  std::vector<std::uint8_t> v_class;  // [head][block][lane]; lanes without a channel are flat
  QuantiserSteps steps;
};

struct ModelPlan {
  std::shared_ptr<const KvProfile> profile;
  std::vector<LayerPlan> layers;
};

// A codec's plan: none until a profile is adopted, then that for good. Thread-safe.
class PlanHolder {
 public:
  explicit PlanHolder(const QuantiserSteps& steps) : steps_(steps) {}
  void adopt(std::shared_ptr<const KvProfile> profile);
  // The plan where it fits the chunk; else null.
  [[nodiscard]] const LayerPlan* find(std::uint32_t layer,
                                      const actors::ChunkLayout& layout) const noexcept;
  [[nodiscard]] std::uint32_t id() const noexcept;
  [[nodiscard]] const QuantiserSteps& steps() const noexcept { return steps_; }

 private:
  const QuantiserSteps steps_;
  std::mutex mutex_;
  std::unique_ptr<const ModelPlan> owner_;
  std::atomic<const ModelPlan*> plan_{nullptr};
};

}  // namespace mzcache::codec
