#include "engine/describe_model_windows.h"

namespace mzcache::engine {
namespace {

constexpr std::uint32_t kWindowMax = 1U << 30;
constexpr std::string_view kPattern = "attention.sliding_window_pattern";

}  // namespace

void describe_windows(ModelKeys& keys, const ModelFamily& family,
                      std::span<actors::LayerDescription> layers) {
  const auto count = static_cast<std::uint32_t>(layers.size());
  const std::uint32_t step = family.no_rope_step;
  for (std::uint32_t i = 0; i < count; ++i) layers[i].rope = step == 0 || (i + 1) % step != 0;

  const WindowRule& rule = family.windows;
  if (!rule.supported) return;
  const bool by_default = rule.window_layers == 0 || rule.window_layers == count;
  const std::uint32_t window =
      keys.size_or_zero("attention.sliding_window", kWindowMax, by_default ? rule.window : 0);
  const auto listed = keys.flags(kPattern, count);
  const std::uint32_t pattern = listed ? 0 : keys.size_or_zero(kPattern, kWindowMax, rule.pattern);
  if (keys.failed() || window == 0) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool windowed = listed ? (*listed)[i] : pattern == 0 || i % pattern != pattern - 1;
    layers[i].window = windowed ? window : 0;
    if (rule.rope_in_windows_only) layers[i].rope = windowed;
  }
}

}  // namespace mzcache::engine
