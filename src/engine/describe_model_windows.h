// Which layers see a window only, and which rotate Q and K.
#pragma once

#include <span>

#include "engine/describe_model_family.h"
#include "engine/describe_model_keys.h"

namespace mzcache::engine {

// Sets window and rope of `layers`, all of the model's; failures are those of `keys`.
void describe_windows(ModelKeys& keys, const ModelFamily& family,
                      std::span<actors::LayerDescription> layers);

}  // namespace mzcache::engine
