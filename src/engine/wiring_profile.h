// Where a profile comes from: its file, or measuring.
#pragma once

#include <string>

#include "actors/model_description.h"
#include "engine/profile.h"
#include "engine/wiring_options.h"
#include "gpu/device.h"
#include "mzcache/config.h"

namespace mzcache::engine {

struct ObtainedProfile {
  Profile profile;   // figures of the configuration not applied
  std::string file;  // where it is kept; "": nowhere
  bool cached = false;
};

// Whether chunks in the swap file have a decoder, and a rate, of their own.
[[nodiscard]] bool decodes_stored_apart(const Config::Memory& memory);

// What a profile's figures depend on: machine, file systems, codecs, placement, storage, memory and
// device options.
[[nodiscard]] std::string profile_key(const Config& config, const gpu::DeviceInfo& device,
                                      const std::string& model_file);

// From the file; measured where that is missing, damaged, of something else, or `refresh`. A
// profile that cannot be kept is a notice.
[[nodiscard]] Result<ObtainedProfile> obtain_profile(const Config& config, gpu::Device& device,
                                                     const actors::ModelDescription* model,
                                                     bool refresh, const NoticeSink& notice);

// Whether the configuration gives every figure the policy needs.
[[nodiscard]] bool profile_given(const Config& config);
// The configuration's figures; 0 where it gives none. Where nothing is measured, the figure for
// decoding stands in for that of the codec for storage.
[[nodiscard]] StageRates given_rates(const Config& config);
// What the planner is to have: measured figures, the configuration's in their place. `model` may be
// null: prefill is then not known.
[[nodiscard]] RestoreProfile planner_profile(const Config& config, Profile profile,
                                             const actors::ModelDescription* model);
// The key of a model's prefill rate.
[[nodiscard]] std::string prefill_key(const actors::ModelDescription& model);

}  // namespace mzcache::engine
