// Measuring what a restore is made of, with the actors a restore is made of: allocator, reader and
// decompressor on threads placed as configured, the same files, block, depth, codec and pages.
#pragma once

#include "actors/model_description.h"
#include "engine/profile.h"
#include "gpu/device.h"
#include "mzcache/config.h"

namespace mzcache::engine {

// Everything but the profile's key and the prefill rates. Takes well under a second of reading and
// decoding on storage that reads a few hundred MiB per second, more on slower. Without a model
// (nullptr) reads are those of a swap file alone, and chunks have a shape of their own. Needs
// memory for some 100 MiB of units, given back before it returns.
[[nodiscard]] Result<Profile> measure_rates(const Config& config, gpu::Device& device,
                                            const actors::ModelDescription* model);

}  // namespace mzcache::engine
