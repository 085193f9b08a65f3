#include "codec/channel_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "codec/rans.h"

namespace mzcache::codec {
namespace {

// A channel that no query looks at still gets a step: that of a small share of the layer's mean.
constexpr double kEnergyFloor = 1e-4;

}  // namespace

LayerPlan::LayerPlan(const LayerProfile& profile, std::uint32_t kv_heads, std::uint32_t head_dim,
                     const QuantiserSteps& quantiser_steps)
    : k_mean(profile.k_mean), steps(quantiser_steps) {
  const std::size_t width = std::size_t{kv_heads} * head_dim;
  double mean_energy = 0;
  for (const float energy : profile.query_energy) mean_energy += double{energy};
  mean_energy /= static_cast<double>(width);
  for (std::size_t c = 0; c < width; ++c) {
    const double energy = std::max(double{profile.query_energy[c]}, kEnergyFloor * mean_energy);
    const double step = energy > 0 ? double{steps.tau} / std::sqrt(energy) : 1.0;
    k_step.push_back(static_cast<float>(step));
    k_inverse.push_back(1.0F / k_step.back());
    k_class.push_back(rans_class(double{profile.k_sigma[c]} / double{k_step.back()}));
  }
  const std::uint32_t blocks = (head_dim + kRowValues - 1) / kRowValues;
  for (std::uint32_t head = 0; head < kv_heads; ++head) {
    for (std::uint32_t dim = 0; dim < blocks * kRowValues; ++dim) {
      const std::size_t c = std::size_t{head} * head_dim + dim;
      v_mean.push_back(dim < head_dim ? profile.v_mean[c] : 0.0F);
      v_class.push_back(dim < head_dim ? rans_class(double{profile.v_sigma[c]} / double{steps.t})
                                       : std::uint8_t{kFlat});
    }
  }
}

ChannelPlan LayerPlan::view() const {
  return {k_mean.data(), k_step.data(), k_inverse.data(), v_mean.data(), steps.t, 1.0F / steps.t};
}

void PlanHolder::adopt(std::shared_ptr<const KvProfile> profile) {
  const std::scoped_lock lock(mutex_);
  if (owner_ != nullptr) return;
  auto plan = std::make_unique<ModelPlan>();
  for (const LayerProfile& layer : profile->layers) {
    plan->layers.emplace_back(layer, profile->kv_heads, profile->head_dim, steps_);
  }
  plan->profile = std::move(profile);
  owner_ = std::move(plan);
  plan_.store(owner_.get(), std::memory_order_release);
}

const LayerPlan* PlanHolder::find(std::uint32_t layer,
                                  const actors::ChunkLayout& layout) const noexcept {
  const ModelPlan* const plan = plan_.load(std::memory_order_acquire);
  if (plan == nullptr || layer >= plan->layers.size() ||
      layout.kv_heads != plan->profile->kv_heads || layout.head_dim != plan->profile->head_dim) {
    return nullptr;
  }
  return &plan->layers[layer];
}

std::uint32_t PlanHolder::id() const noexcept {
  const ModelPlan* const plan = plan_.load(std::memory_order_acquire);
  return plan == nullptr ? 0 : plan->profile->id;
}

}  // namespace mzcache::codec
