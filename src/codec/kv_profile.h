// What a codec knows of a model's keys and values before it sees a chunk: per layer and channel the
// mean and spread of un-rotated K, the energy of the queries that meet it, and the mean and spread
// of V over its token's rms. Made once for a model, then frozen: encoded chunks name it by its id.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "actors/ports.h"
#include "mzcache/errors.h"

namespace mzcache::codec {

struct LayerProfile {
  // One value per channel, channels over the concatenated KV heads.
  std::vector<float> k_mean, k_sigma;
  // E[q²] of the rotated queries, scaled so that a logit is Σ q·k / √head_dim; over the group's
  // query heads and the rotary pair.
  std::vector<float> query_energy;
  std::vector<float> v_mean, v_sigma;
};

struct KvProfile {
  std::uint64_t model = 0;  // the model's identity
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t tokens = 0;  // it was made from
  std::vector<LayerProfile> layers;
  std::uint32_t id = 0;  // of its contents, never 0; set by (de)serialising
};

// The file: values as FP16 (energies as their logarithm), version and checksum. What is serialised
// reads back as what deserialise gives, so freeze a fresh profile by a round trip.
[[nodiscard]] std::vector<std::byte> serialise(const KvProfile& profile);
// kBadFormat, kChecksum, or kBadArgument where it is of another model or shape.
[[nodiscard]] Result<KvProfile> deserialise(std::span<const std::byte> bytes,
                                            std::string_view file);

// Codecs that can use a profile.
class ProfiledCodec {
 public:
  virtual ~ProfiledCodec() = default;
  [[nodiscard]] virtual bool wants_profile() const = 0;
  // Once, from any thread; later calls are ignored. Chunks encoded from then on use it.
  virtual void adopt(std::shared_ptr<const KvProfile> profile) const = 0;
};

// Gathers a profile from chunks and query energies. Not thread-safe.
class ProfileBuilder {
 public:
  ProfileBuilder(const actors::ChunkLayout& layout, std::uint32_t layers);

  // A chunk's tokens, each `every`-th of them; tokens 0 … 3 of a sequence are left out.
  void add_chunk(const actors::ChunkView& chunk, std::uint32_t every);
  // Sums of q² over `tokens` tokens, per channel of the query heads; scale: attention scale ·
  // √head_dim.
  void add_queries(std::uint32_t layer, std::span<const float> energy, std::uint32_t tokens,
                   float scale, const actors::RopeDescription& rope);

  [[nodiscard]] std::uint32_t tokens() const noexcept { return tokens_; }
  // kBadArgument where a layer has no chunk or no queries yet.
  [[nodiscard]] Result<KvProfile> build(std::uint64_t model) const;

 private:
  struct Sums {
    std::vector<double> k, k2, q2, v, v2;
    std::uint64_t tokens = 0;
    std::uint64_t queries = 0;
  };
  actors::ChunkLayout layout_;
  std::uint32_t width_;
  std::uint32_t tokens_ = 0;  // of layer 0
  std::vector<Sums> layers_;
};

}  // namespace mzcache::codec
