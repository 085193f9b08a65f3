// The profile that some codecs want of a model: read from its file, or gathered while the model's
// own first tokens are computed, then frozen, kept in the file and used from then on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/kv_shape.h"
#include "actors/model_description.h"
#include "codec/kv_profile.h"
#include "engine/engine_state.h"
#include "engine/wiring_options.h"

namespace mzcache::engine {

// Tokens after which a profile is frozen.
inline constexpr std::uint32_t kCodecProfileTokens = 4096;
// Of a chunk's tokens one in so many counts: enough for means and spreads, and next to nothing
// beside computing them.
inline constexpr std::uint32_t kCodecProfileTokensEvery = 8;

// Those of both tiers that want a profile, and have none.
using ProfiledCodecs = std::vector<const codec::ProfiledCodec*>;
[[nodiscard]] ProfiledCodecs profiled_codecs(const actors::TierCodecs& codecs);
void adopt(const ProfiledCodecs& codecs, codec::KvProfile profile);

// Where a model's codec profile is kept; "" where there is no place.
[[nodiscard]] std::string codec_profile_path(const actors::ModelDescription& model);
[[nodiscard]] Result<codec::KvProfile> load_codec_profile(const std::string& path,
                                                          const actors::ModelDescription& model);

// The codecs adopt the profile that is there; where there is none, null or what has to watch the
// slices. Null too where neither wants one. Everything named outlives the observer.
[[nodiscard]] std::unique_ptr<SliceObserver> watch_for_codec_profile(
    const actors::TierCodecs& codecs, const actors::ModelDescription& model,
    const actors::KvShape& shape, actors::SharedMemory& memory, actors::ComputeQueue& queue,
    const NoticeSink& notice);

}  // namespace mzcache::engine
