#include "engine/wiring_codec_profile.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/profile.h"

namespace mzcache::engine {
namespace {

Result<void> save(const std::string& path, const codec::KvProfile& profile) {
  const auto failed = [&](const char* what) -> Result<void> {
    return Error{ErrorCode::kIo, 0, "codec profile " + path, what};
  };
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string beside = path + ".new";
  {
    std::ofstream stream(beside, std::ios::binary | std::ios::trunc);
    const std::vector<std::byte> bytes = codec::serialise(profile);
    stream.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    if (!stream.flush()) return failed("cannot be written");
  }
  std::filesystem::rename(beside, path, error);
  if (error) return failed("cannot be put in its place");
  return {};
}

class CodecProfileWatch final : public SliceObserver {
 public:
  CodecProfileWatch(ProfiledCodecs codecs, const actors::ModelDescription& model,
                    const actors::KvShape& shape, actors::SharedMemory& memory,
                    actors::ComputeQueue& queue, NoticeSink notice)
      : codecs_(std::move(codecs)),
        model_(model),
        shape_(shape),
        memory_(memory),
        queue_(queue),
        notice_(std::move(notice)),
        builder_(shape.layout, model.layers) {
    done_ = !queue_.sample_queries(true);
  }

  void computed(std::uint32_t context, std::uint32_t first_position,
                std::uint32_t token_count) noexcept override {
    if (done_) return;
    const std::uint32_t chunk_tokens = shape_.layout.tokens;
    const std::uint32_t end = (first_position + token_count) / chunk_tokens;
    for (std::uint32_t chunk = first_position / chunk_tokens; chunk < end; ++chunk) {
      for (std::uint32_t layer = 0; layer < model_.layers; ++layer) {
        const actors::UnitId unit = actors::kv_unit(context, layer, chunk);
        memory_.begin_host_access(unit);
        builder_.add_chunk(shape_.view<const std::byte>(unit, chunk_tokens, memory_.bytes(unit)),
                           kCodecProfileTokensEvery);
        memory_.end_host_access(unit);
      }
    }
    if (builder_.tokens() >= kCodecProfileTokens) freeze();
  }

 private:
  void freeze() {
    Result<actors::QuerySamples> samples = queue_.query_samples();
    if (samples && samples->tokens == 0) return;  // short slices only: they are not sampled
    done_ = true;
    static_cast<void>(queue_.sample_queries(false));
    if (!samples) return say(samples.error().message());
    // As a logit is Σ q·k / √head_dim.
    const float scale = model_.attention_scale * std::sqrt(static_cast<float>(model_.head_dim));
    for (std::uint32_t layer = 0; layer < model_.layers; ++layer) {
      const auto energy =
          std::span(samples->energy).subspan(std::size_t{layer} * samples->width, samples->width);
      builder_.add_queries(layer, energy, samples->tokens, scale, shape_.ropes[layer]);
    }
    Result<codec::KvProfile> profile = builder_.build(model_.identity);
    if (!profile) return say(profile.error().message());
    const std::string path = codec_profile_path(model_);
    if (!path.empty()) {
      if (Result<void> saved = save(path, *profile); !saved) say(saved.error().message());
    }
    adopt(codecs_, std::move(*profile));
    say(fmt::format("codec profile made from {} tokens{}", builder_.tokens(),
                    path.empty() ? "" : ", kept in " + path));
  }

  void say(const std::string& text) const {
    if (notice_) notice_(text);
  }

  const ProfiledCodecs codecs_;
  const actors::ModelDescription& model_;
  const actors::KvShape& shape_;
  actors::SharedMemory& memory_;
  actors::ComputeQueue& queue_;
  const NoticeSink notice_;
  codec::ProfileBuilder builder_;
  bool done_ = false;
};

}  // namespace

std::string codec_profile_path(const actors::ModelDescription& model) {
  const std::string directory = profile_directory();
  if (directory.empty()) return {};
  return fmt::format("{}/codec-{:016x}.mzkp", directory, model.identity);
}

Result<codec::KvProfile> load_codec_profile(const std::string& path,
                                            const actors::ModelDescription& model) {
  std::ifstream stream(path, std::ios::binary);
  if (path.empty() || !stream) {
    return Error{ErrorCode::kNotFound, 0, "codec profile " + path, "not there"};
  }
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  Result<codec::KvProfile> profile = codec::deserialise(std::as_bytes(std::span(text)), path);
  if (!profile) return profile;
  if (profile->model != model.identity || profile->layers.size() != model.layers ||
      profile->kv_heads != model.kv_heads || profile->head_dim != model.head_dim) {
    return Error{ErrorCode::kBadFormat, 0, "codec profile " + path, "of another model"};
  }
  return profile;
}

ProfiledCodecs profiled_codecs(const actors::TierCodecs& codecs) {
  ProfiledCodecs profiled;
  for (const actors::KvCodec* const codec : {codecs.memory, codecs.storage}) {
    const auto* const wants = dynamic_cast<const codec::ProfiledCodec*>(codec);
    if (wants != nullptr && wants->wants_profile()) profiled.push_back(wants);
  }
  return profiled;
}

void adopt(const ProfiledCodecs& codecs, codec::KvProfile profile) {
  const auto shared = std::make_shared<const codec::KvProfile>(std::move(profile));
  for (const codec::ProfiledCodec* const codec : codecs) codec->adopt(shared);
}

std::unique_ptr<SliceObserver> watch_for_codec_profile(const actors::TierCodecs& codecs,
                                                       const actors::ModelDescription& model,
                                                       const actors::KvShape& shape,
                                                       actors::SharedMemory& memory,
                                                       actors::ComputeQueue& queue,
                                                       const NoticeSink& notice) {
  ProfiledCodecs profiled = profiled_codecs(codecs);
  if (profiled.empty()) return nullptr;
  Result<codec::KvProfile> kept = load_codec_profile(codec_profile_path(model), model);
  if (kept) {
    adopt(profiled, std::move(*kept));
    return nullptr;
  }
  if (kept.error().code != ErrorCode::kNotFound && notice) {
    notice(kept.error().message() + "; made anew");
  }
  return std::make_unique<CodecProfileWatch>(std::move(profiled), model, shape, memory, queue,
                                             notice);
}

}  // namespace mzcache::engine
