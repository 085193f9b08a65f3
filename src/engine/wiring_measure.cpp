#include "engine/wiring_measure.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "engine/wiring_profile.h"
#include "engine/wiring_rig.h"

namespace mzcache::engine {
namespace {

using actors::Nanoseconds;
using actors::UnitId;

// Rounds of each kind, the median of which counts; fewer where they take longer than this in sum.
constexpr int kRounds = 5;
constexpr Nanoseconds kRoundsLimit = std::chrono::milliseconds(500);
// Raw bytes of chunks, and bytes of weights (at least one unit), moved in a round.
constexpr std::uint64_t kChunkBytesTotal = std::uint64_t{32} << 20;
constexpr std::uint64_t kWeightBytesTotal = std::uint64_t{48} << 20;
// Neighbouring chunks that are allocated at once, as the coordinator does.
constexpr std::uint64_t kRunBytes = std::uint64_t{8} << 20;
constexpr std::uint32_t kRunChunksMax = 8;

Subject make_subject(const actors::ModelDescription* model) {
  Subject subject;
  std::uint32_t layers = 4;
  if (model != nullptr) {
    layers = model->layers;
    subject.file = model->file;
    subject.sizes = unit_sizes(*model);
    subject.shape = actors::kv_shape(*model);
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < layers && (i == 0 || bytes < kWeightBytesTotal); ++i) {
      subject.weights.push_back({actors::weights_unit(i), model->layer[i].ranges});
      bytes += model->layer[i].unit_bytes;
    }
  } else {
    subject.shape.layout = {actors::ChunkLayout::Order::kTiled, 8, 128, actors::kChunkTokens};
    subject.shape.ropes.resize(layers);
    subject.sizes.weights_bytes.assign(layers, actors::kBlockAlignment);
    subject.sizes.head_bytes = actors::kBlockAlignment;
    subject.sizes.chunk_bytes = subject.shape.layout.bytes();
  }
  const std::uint64_t chunk_bytes = subject.sizes.chunk_bytes;
  const auto run = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kRunBytes / chunk_bytes, 1, kRunChunksMax));
  std::uint64_t bytes = 0;
  for (std::uint32_t layer = 0; layer < layers && bytes < kChunkBytesTotal; ++layer) {
    std::vector<UnitId> neighbours;
    neighbours.reserve(run);
    for (std::uint32_t chunk = 0; chunk < run; ++chunk) {
      neighbours.push_back(actors::kv_unit(Subject::kContext, layer, chunk));
    }
    bytes += run * chunk_bytes;
    subject.chunks.push_back(std::move(neighbours));
  }
  return subject;
}

// The tallies of some rounds; at least one.
Result<std::vector<Tally>> repeat(Rig& rig,
                                  std::vector<actors::AllocateUnits> (*runs)(const Rig&)) {
  std::vector<Tally> tallies;
  const Nanoseconds begin = rig.clock().now();
  for (int i = 0; i < kRounds; ++i) {
    Result<Tally> tally = rig.restore(runs(rig));
    if (!tally) return tally.error();
    tallies.push_back(std::move(*tally));
    if (rig.clock().now() - begin > kRoundsLimit) break;
  }
  return tallies;
}

template <class Value>
double median_of(const std::vector<Tally>& tallies, Value&& value) {
  std::deque<double> values;
  for (const Tally& tally : tallies) values.push_back(value(tally));
  return median(std::move(values));
}
double median_read(const std::vector<Tally>& tallies) {
  return median_of(tallies, [](const Tally& t) { return rate(t.bytes_read, t.read); });
}

struct DecodeFigures {
  double bytes_per_s = 0;
  double cpu_s_per_byte = 0;
  std::vector<Tally> tallies;
};

// Of the rig's codec; the chunks are out.
Result<DecodeFigures> measure_decoding(Rig& rig) {
  auto decoded = repeat(rig, [](const Rig& r) { return r.chunk_runs(true); });
  if (!decoded) return decoded.error();
  DecodeFigures figures;
  std::uint64_t bytes_decoded = 0;
  for (const Tally& tally : *decoded) bytes_decoded += tally.bytes_decoded;
  figures.cpu_s_per_byte = seconds(rig.codec().decode_cpu()) /
                           static_cast<double>(std::max<std::uint64_t>(1, bytes_decoded));
  figures.bytes_per_s =
      median_of(*decoded, [](const Tally& t) { return rate(t.bytes_decoded, t.decode); }) *
      rig.decoders();
  figures.tallies = std::move(*decoded);
  return figures;
}

// The same with the codec for storage in the place of the other, and without a swap file.
Result<void> measure_storage_codec(Config config, gpu::Device& device,
                                   const actors::ModelDescription* model, Profile& profile) {
  config.memory.codec = config.memory.storage_codec;
  config.memory.swap_file_max = 0;
  const auto rig = Rig::create(config, device, make_subject(model));
  if (!rig) return rig.error();
  const Nanoseconds begin = (*rig)->clock().now();
  Profile of_it;  // what an eviction does is the other's
  if (Result<void> out = (*rig)->put_chunks_out(of_it); !out) return out;
  const Result<DecodeFigures> decoding = measure_decoding(**rig);
  if (!decoding) return decoding.error();
  profile.alone.storage_decode = decoding->bytes_per_s;
  profile.storage_decode_cpu_s_per_byte = decoding->cpu_s_per_byte;
  profile.measure_s += seconds((*rig)->clock().now() - begin);
  return {};
}

Result<Profile> measure_paths(const Config& config, gpu::Device& device,
                              const actors::ModelDescription* model) {
  Result<std::unique_ptr<Rig>> created = Rig::create(config, device, make_subject(model));
  if (!created) return created.error();
  Rig& rig = **created;
  const Nanoseconds begin = rig.clock().now();
  Profile profile;
  if (Result<void> out = rig.put_chunks_out(profile); !out) return out.error();

  const Result<DecodeFigures> decoding = measure_decoding(rig);
  if (!decoding) return decoding.error();
  std::vector<Tally> all = decoding->tallies;
  profile.decode_cpu_s_per_byte = decoding->cpu_s_per_byte;
  profile.alone.decode = decoding->bytes_per_s;

  if (rig.stored()) {
    const auto swap = repeat(rig, [](const Rig& r) { return r.chunk_runs(false); });
    if (!swap) return swap.error();
    profile.alone.swap_read = median_read(*swap);
    all.insert(all.end(), swap->begin(), swap->end());
  }
  if (model != nullptr) {
    const auto weights = repeat(rig, [](const Rig& r) { return r.weight_runs(); });
    if (!weights) return weights.error();
    profile.alone.model_read = median_read(*weights);
    all.insert(all.end(), weights->begin(), weights->end());
  }
  if (read_rate(profile.alone) <= 0) {
    return Error{ErrorCode::kNoSpace, 0, "measure",
                 "no swap file in " + config.memory.swap_directory + ", and no model to read"};
  }
  profile.alone.allocate =
      median_of(all, [](const Tally& t) { return rate(t.bytes_allocated, t.allocate); }) *
      rig.allocators();
  profile.measure_s = seconds(rig.clock().now() - begin);
  return profile;
}

}  // namespace

Result<Profile> measure_rates(const Config& config, gpu::Device& device,
                              const actors::ModelDescription* model) {
  Result<Profile> profile = measure_paths(config, device, model);
  if (!profile || !decodes_stored_apart(config.memory)) return profile;
  if (auto measured = measure_storage_codec(config, device, model, *profile); !measured) {
    return measured.error();
  }
  return profile;
}

}  // namespace mzcache::engine
