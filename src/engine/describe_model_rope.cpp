#include "engine/describe_model_rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace mzcache::engine {
namespace {

using actors::RopeDescription;

constexpr std::uint32_t kDimensionsMax = 4096;
constexpr std::uint32_t kContextMax = 1U << 30;

// In the order of ModelKeys::choice; a factor without a type is linear.
enum class Scaling : std::uint8_t { kLinear, kNone, kYarn };
constexpr std::array<std::string_view, 3> kScalings = {"linear", "none", "yarn"};

struct RopeScaling {
  Scaling kind = Scaling::kNone;
  double factor = 1;            // contexts are this many times as long as those trained on …
  double original_context = 0;  // … which had so many tokens
  double beta_fast = 32;
  double beta_slow = 1;
};

// YaRN (arXiv:2309.00071, §3.2 and 3.4): dimensions that turn often within the original context
// stay as they are, those that turn rarely are interpolated, with a ramp between. The ramp's ends
// are whole dimensions.
void apply_yarn(RopeDescription& rope, const RopeScaling& yarn) {
  const double dimensions = rope.dimensions;
  const auto dimension_of = [&](double turns) {
    return dimensions * std::log(yarn.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(double{rope.base}));
  };
  const double low = std::max(0.0, std::floor(dimension_of(yarn.beta_fast)));
  const double high = std::min(dimensions - 1, std::ceil(dimension_of(yarn.beta_slow)));
  rope.factors.resize(rope.dimensions / 2);
  for (std::size_t pair = 0; pair < rope.factors.size(); ++pair) {
    const double along = (static_cast<double>(pair) - low) / std::max(0.001, high - low);
    const double kept = 1 - std::clamp(along, 0.0, 1.0);
    rope.factors[pair] = static_cast<float>(1 / ((1 - kept) / yarn.factor + kept));
  }
  if (yarn.factor > 1) {
    rope.magnitude *= static_cast<float>(1 + 0.1 * std::log(yarn.factor));
  }
}

RopeScaling read_scaling(ModelKeys& keys, std::uint32_t context_length) {
  RopeScaling scaling;
  scaling.kind = static_cast<Scaling>(keys.choice("rope.scaling.type", kScalings));
  // The older key is the fallback of the newer one; 0 in either is the same as absent.
  const float linear = keys.positive_or_zero("rope.scale_linear", 1e6, 0.0F);
  const float factor = keys.positive_or_zero("rope.scaling.factor", 1e6, linear);
  if (factor > 0) scaling.factor = double{factor};
  scaling.original_context =
      keys.size("rope.scaling.original_context_length", kContextMax, context_length);
  const auto number = [&keys](std::string_view key, float fallback) {
    return double{keys.positive(key, 1e6, fallback)};
  };
  scaling.beta_fast = number("rope.scaling.yarn_beta_fast", 32.0F);
  scaling.beta_slow = number("rope.scaling.yarn_beta_slow", 1.0F);
  return scaling;
}

void apply_scaling(RopeDescription& rope, const RopeScaling& scaling) {
  if (scaling.kind == Scaling::kLinear) rope.scale = static_cast<float>(1 / scaling.factor);
  if (scaling.kind == Scaling::kYarn) apply_yarn(rope, scaling);
}

}  // namespace

RopeDescriptions describe_rope(ModelKeys& keys, const ModelFamily& family, std::uint32_t head_dim,
                               std::uint32_t context_length) {
  RopeDescription rope;
  rope.pairing = family.pairing;
  rope.dimensions = keys.size("rope.dimension_count", kDimensionsMax, head_dim);
  if (rope.dimensions % 2 != 0 || rope.dimensions > head_dim) {
    keys.fail(ErrorCode::kBadFormat, "rope.dimension_count",
              "value " + std::to_string(rope.dimensions) +
                  ", allowed are even numbers up to the head's " + std::to_string(head_dim) +
                  " dimensions");
  }
  rope.base = keys.positive("rope.freq_base", 1e12, 10000.0F);
  rope.magnitude = keys.positive("rope.scaling.attn_factor", 1e6, 1.0F);
  const RopeScaling scaling = read_scaling(keys, context_length);

  const WindowRule& windows = family.windows;
  std::optional<RopeDescription> windowed;
  if (windows.supported) {
    windowed = rope;
    windowed->base = keys.positive("rope.freq_base_swa", 1e12,
                                   windows.rope_base > 0 ? windows.rope_base : rope.base);
    if (windows.rope_base == 0) apply_scaling(*windowed, scaling);
  }
  apply_scaling(rope, scaling);
  if (windowed == rope) windowed.reset();
  return {std::move(rope), std::move(windowed)};
}

void apply_factors(RopeDescription& rope, const std::vector<float>& factors) {
  if (rope.factors.empty()) rope.factors.assign(factors.size(), 1.0F);
  for (std::size_t i = 0; i < factors.size(); ++i) rope.factors[i] *= factors[i];
}

}  // namespace mzcache::engine
