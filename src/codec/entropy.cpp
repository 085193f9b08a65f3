#include "codec/entropy.h"

#include <algorithm>
#include <string>

#include "codec/entropy_form.h"
#include "codec/raw_tokens.h"
#include "codec/symbol_streams.h"

namespace mzcache::codec {
namespace {

constexpr std::uint8_t kFreeForm = 0;
constexpr std::uint8_t kProfileForm = 1;
constexpr std::uint32_t kTokensMax = 65535;
// Scales tried beside the one of the rms, where there is no profile.
constexpr int kKeyReach = 2;
constexpr double kTypicalShare = 0.205;
// Without a profile K's step is τ times this share of its rms.
constexpr double kFreeShare = 0.34;

QuantiserSteps steps_of(EntropyCodec::Preset preset) {
  switch (preset) {
    case EntropyCodec::Preset::kDefault:
      return {0.5F, 0.5F};
    case EntropyCodec::Preset::kNear:
      return {0.255F, 0.255F};
    case EntropyCodec::Preset::kSmall:
      return {1.0F, 0.8F};
    case EntropyCodec::Preset::kFree:
      return {0.5F, 0.5F};
  }
  return {};
}

const char* name_of(EntropyCodec::Preset preset) {
  switch (preset) {
    case EntropyCodec::Preset::kDefault:
      return "entropy";
    case EntropyCodec::Preset::kNear:
      return "entropy:near";
    case EntropyCodec::Preset::kSmall:
      return "entropy:small";
    case EntropyCodec::Preset::kFree:
      return "entropy:free";
  }
  return "";
}

struct Head {
  std::uint8_t form = 0;
  std::uint8_t preset = 0;
  std::int16_t exponent = 0;
  std::uint32_t profile = 0;
  StreamSizes streams;
};

struct Work {
  // Counts where the arena does.
  Work(Arena& arena, const actors::ChunkLayout& layout)
      : quantiser(arena, layout), free_form(arena, layout), streams(arena, layout) {}

  QuantiserWork quantiser;
  FreeForm free_form;
  StreamWork streams;
};

// How a chunk's values become symbols, and those bytes.
struct Coding {
  ChannelPlan plan;
  SymbolTables tables;
};

Coding coding_of(const LayerPlan& layer) {
  return {layer.view(), {layer.k_class.data(), layer.v_class.data(), nullptr, nullptr}};
}
Coding coding_of(const ChannelPlan& plan, const FreeForm& form) {
  return {plan,
          {form.k_class.data(), form.v_class.data(), form.k_offset.data(), form.v_offset.data()}};
}

// False where a stream is damaged; the chunk's values then mean nothing.
bool put_keys(SymbolReader& streams, ChannelQuantiser& quantiser, const ChunkGeometry& geometry,
              const ChannelPlan& plan, std::int16_t* symbols, std::byte* chunk) {
  const std::uint32_t dims = geometry.layout.head_dim;
  for (std::uint32_t tile = 0; tile < geometry.tiles; ++tile) {
    quantiser.turn_to(tile);
    for (std::uint32_t head = 0; head < geometry.layout.kv_heads; ++head) {
      if (!streams.keys(std::size_t{head} * dims, dims, symbols)) return false;
      quantiser.put_keys(chunk, plan, tile, head, symbols);
    }
  }
  return true;
}

bool put_values(SymbolReader& streams, ChannelQuantiser& quantiser, const ChunkGeometry& geometry,
                const ChannelPlan& plan, std::int16_t* symbols, std::byte* chunk) {
  for (std::uint32_t i = 0; i < geometry.layout.kv_heads * geometry.blocks; ++i) {
    for (std::uint32_t first = 0; first < geometry.token_count;) {
      const std::uint32_t rows =
          std::min(SymbolReader::kValueRowsMax, geometry.token_count - first);
      if (!streams.values(std::size_t{i} * kRowValues, rows, symbols)) return false;
      quantiser.put_values(chunk, plan, i / geometry.blocks, i % geometry.blocks, first, rows,
                           symbols);
      first += rows;
    }
  }
  return true;
}

// Without a profile: the step whose decoded values K may be, else the one of its rms.
std::int16_t find_exponent(ChannelQuantiser& quantiser, const std::byte* chunk, FreeForm& form,
                           const QuantiserSteps& steps, const ChunkGeometry& geometry) {
  const std::int16_t first = key_exponent(quantiser.key_energy(chunk),
                                          std::uint64_t{geometry.width} * geometry.token_count,
                                          kFreeShare * double{steps.tau});
  if (first == kZeroKeys) return first;
  for (int i = 0; i <= 2 * kKeyReach; ++i) {  // 0, 1, -1, 2, -2
    const auto exponent = static_cast<std::int16_t>(first + (i % 2 == 0 ? -i / 2 : (i + 1) / 2));
    if (quantiser.reproduces_keys(chunk, form.plan(exponent, steps))) return exponent;
  }
  return first;
}

}  // namespace

EntropyCodec::EntropyCodec(Preset preset, const SimdVariant& simd)
    : FramedCodec(name_of(preset), CodecId::kEntropy, 2),
      preset_(preset),
      simd_(simd),
      plans_(steps_of(preset)) {}

std::uint64_t EntropyCodec::typical_bytes(const actors::ChunkLayout& layout,
                                          std::uint32_t token_count) const noexcept {
  const double share =
      preset_ == Preset::kNear ? 0.265 : (preset_ == Preset::kSmall ? 0.155 : kTypicalShare);
  return kHeaderBytes +
         static_cast<std::uint64_t>(static_cast<double>(valid_bytes(layout, token_count)) * share);
}

std::uint64_t EntropyCodec::work_bytes(const actors::ChunkLayout& layout) const noexcept {
  Arena counting;
  const Work work(counting, layout);
  return counting.used();
}

std::optional<std::uint64_t> EntropyCodec::encode_payload(const actors::ChunkView& chunk,
                                                          std::span<std::byte> out,
                                                          std::span<std::byte> scratch) const {
  if (chunk.layout->tokens > kTokensMax) return std::nullopt;
  Arena arena(scratch);
  Work work(arena, *chunk.layout);
  const ChunkGeometry geometry(*chunk.layout, chunk.token_count);
  const auto rope = ropes_.get(chunk.rope, chunk.layout->head_dim, chunk.layout->tokens);
  ChannelQuantiser quantiser(*simd_.channels, *rope, geometry, chunk.first_position,
                             work.quantiser);
  const LayerPlan* const layer = plans_.find(chunk.layer, *chunk.layout);
  Head head;
  head.preset = static_cast<std::uint8_t>(preset_);
  Coding coding;
  if (layer != nullptr) {
    head.form = kProfileForm;
    head.profile = plans_.id();
    coding = coding_of(*layer);
    quantiser.quantise(chunk.bytes.data(), coding.plan);
  } else {
    head.form = kFreeForm;
    head.exponent =
        find_exponent(quantiser, chunk.bytes.data(), work.free_form, plans_.steps(), geometry);
    const ChannelPlan plan = work.free_form.plan(head.exponent, plans_.steps());
    quantiser.quantise(chunk.bytes.data(), plan);
    work.free_form.fit(geometry, work.quantiser);
    quantiser.clear_raw();
    coding = coding_of(plan, work.free_form);
  }

  SymbolWriter streams(*simd_.rans, geometry, coding.tables, work.streams);
  if (!streams.encode(work.quantiser.k_symbols.data(), work.quantiser.v_symbols.data())) {
    return std::nullopt;
  }
  head.streams = streams.sizes();
  ByteWriter writer(out);
  writer.put(head);
  if (layer == nullptr) work.free_form.write(writer, geometry);
  writer.put_bytes(std::as_bytes(work.quantiser.exponents.first(chunk.token_count)));
  put_raw_tokens(writer, quantiser, geometry, work.quantiser, chunk.bytes.data());
  streams.write(writer);
  if (!writer.ok() || writer.used() >= out.size()) return std::nullopt;
  return writer.used();
}

Result<void> EntropyCodec::decode_payload(std::span<const std::byte> payload,
                                          const actors::MutableChunkView& chunk,
                                          std::span<std::byte> scratch) const {
  if (chunk.layout->tokens > kTokensMax) return bad_payload("layout: more than 65535 tokens");
  Arena arena(scratch);
  Work work(arena, *chunk.layout);
  const ChunkGeometry geometry(*chunk.layout, chunk.token_count);
  ByteReader reader(payload);
  const auto head = reader.get<Head>();
  if (head.form > kProfileForm || head.preset != static_cast<std::uint8_t>(preset_)) {
    return bad_payload("payload: of another form or preset");
  }
  const LayerPlan* const layer =
      head.form == kProfileForm ? plans_.find(chunk.layer, *chunk.layout) : nullptr;
  Coding coding;
  if (head.form == kProfileForm) {
    if (layer == nullptr || head.profile != plans_.id()) {
      return bad_payload("payload: made with profile " + std::to_string(head.profile) +
                         ", in use is " + std::to_string(plans_.id()));
    }
    coding = coding_of(*layer);
  } else {
    if (!work.free_form.read(reader, geometry))
      return bad_payload("payload: its channels are damaged");
    coding = coding_of(work.free_form.plan(head.exponent, plans_.steps()), work.free_form);
  }
  const auto exponents = reader.take(chunk.token_count);
  RawTokens raw;
  if (!reader.ok() || !get_raw_tokens(reader, geometry, raw)) {
    return bad_payload("payload: its raw tokens are damaged");
  }
  std::memcpy(work.quantiser.exponents.data(), exponents.data(), exponents.size());
  SymbolReader streams(*simd_.rans, coding.tables);
  if (!streams.open(reader, head.streams, *chunk.layout, work.streams)) {
    return bad_payload("payload: its parts do not fit its size");
  }
  const auto rope = ropes_.get(chunk.rope, chunk.layout->head_dim, chunk.layout->tokens);
  ChannelQuantiser quantiser(*simd_.channels, *rope, geometry, chunk.first_position,
                             work.quantiser);
  quantiser.make_scales();
  std::int16_t* const symbols = work.quantiser.k_symbols.data();
  std::byte* const bytes = chunk.bytes.data();
  if (!put_keys(streams, quantiser, geometry, coding.plan, symbols, bytes) ||
      !put_values(streams, quantiser, geometry, coding.plan, symbols, bytes) ||
      !streams.finished()) {
    return bad_payload("payload: its streams are damaged");
  }
  quantiser.finish();
  restore_raw_tokens(raw, quantiser, geometry, chunk.bytes.data());
  return {};
}

}  // namespace mzcache::codec
