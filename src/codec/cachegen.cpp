#include "codec/cachegen.h"

#include <algorithm>
#include <cmath>

#include "codec/chunk_values.h"
#include "codec/entropy_form.h"
#include "codec/half.h"
#include "codec/symbol_streams.h"

namespace mzcache::codec {
namespace {

constexpr std::uint32_t kFineKeyLayers = 10;
constexpr std::uint32_t kFineValueLayers = 2;
constexpr int kFine = 32 / 2 - 1;
constexpr int kCoarse = 16 / 2 - 1;
constexpr double kTypicalShare = 0.18;

// Symbols are -levels … levels.
int levels_of(std::uint32_t layer, bool values) {
  return layer < (values ? kFineValueLayers : kFineKeyLayers) ? kFine : kCoarse;
}

struct Work {
  // Counts where the arena does.
  Work(Arena& arena, const actors::ChunkLayout& layout)
      : quantiser(arena, layout), form(arena, layout), streams(arena, layout) {}
  QuantiserWork quantiser;  // its symbols; scales hold K's, sums V's
  FreeForm form;
  StreamWork streams;
};

float value_of(int symbol, float scale, int levels) {
  return static_cast<float>(symbol) * (scale / static_cast<float>(levels));
}

// Calls visit(chunk index of the value, symbol, token) for every value of one half.
template <class Visit>
void for_each_symbol(const ChunkGeometry& geometry, QuantiserWork& work, bool values, Visit visit) {
  const actors::ChunkLayout& layout = geometry.layout;
  for (std::uint32_t token = 0; token < geometry.token_count; ++token) {
    for (std::uint32_t channel = 0; channel < geometry.width; ++channel) {
      if (values) {
        const std::uint32_t dim = channel % layout.head_dim;
        const std::size_t block =
            std::size_t{channel / layout.head_dim} * geometry.blocks + dim / kRowValues;
        visit(
            layout.values_per_half() + v_index(layout, token, channel),
            work.v_symbols[(block * geometry.token_count + token) * kRowValues + dim % kRowValues],
            token);
      } else {
        const std::size_t row = std::size_t{token / kRowValues} * geometry.width + channel;
        visit(k_index(layout, token, channel),
              work.k_symbols[row * kRowValues + token % kRowValues], token);
      }
    }
  }
}

// False where a value is Inf or NaN, or would not come back the same in a second cycle.
bool quantise(const ChunkGeometry& geometry, const actors::ChunkView& chunk, bool values,
              Work& work) {
  const int levels = levels_of(chunk.layer, values);
  const auto scales = values ? work.quantiser.sums : work.quantiser.scales;
  const auto value_at = [&](std::uint64_t index) {
    return half_to_float(load_half(chunk.bytes.data() + 2 * index));
  };
  std::fill_n(scales.begin(), geometry.token_count, 0.0F);
  bool good = true;
  for_each_symbol(geometry, work.quantiser, values,
                  [&](std::uint64_t index, std::int16_t&, std::uint32_t token) {
                    const float magnitude = std::fabs(value_at(index));
                    good = good && std::isfinite(magnitude);
                    scales[token] = std::max(scales[token], magnitude);
                  });
  if (!good) return false;
  for_each_symbol(geometry, work.quantiser, values,
                  [&](std::uint64_t index, std::int16_t& symbol, std::uint32_t token) {
                    const float scale = scales[token];
                    symbol = 0;
                    if (scale == 0.0F) return;
                    const float per_level = static_cast<float>(levels) / scale;
                    symbol = static_cast<std::int16_t>(std::nearbyint(value_at(index) * per_level));
                    const float decoded =
                        half_to_float(float_to_half(value_of(symbol, scale, levels)));
                    good = good && std::isfinite(per_level) &&
                           static_cast<int>(std::nearbyint(decoded * per_level)) == symbol &&
                           (std::abs(symbol) < levels || std::fabs(decoded) == scale);
                  });
  return good;
}

void dequantise(const ChunkGeometry& geometry, const actors::MutableChunkView& chunk, bool values,
                Work& work) {
  const int levels = levels_of(chunk.layer, values);
  const auto scales = values ? work.quantiser.sums : work.quantiser.scales;
  for_each_symbol(geometry, work.quantiser, values,
                  [&](std::uint64_t index, const std::int16_t& symbol, std::uint32_t token) {
                    store_half(chunk.bytes.data() + 2 * index,
                               float_to_half(value_of(symbol, scales[token], levels)));
                  });
}

SymbolTables tables_of(const FreeForm& form) {
  return {form.k_class.data(), form.v_class.data(), form.k_offset.data(), form.v_offset.data()};
}

}  // namespace

std::uint64_t CacheGenCodec::typical_bytes(const actors::ChunkLayout& layout,
                                           std::uint32_t token_count) const noexcept {
  return kHeaderBytes + static_cast<std::uint64_t>(
                            static_cast<double>(valid_bytes(layout, token_count)) * kTypicalShare);
}

std::uint64_t CacheGenCodec::work_bytes(const actors::ChunkLayout& layout) const noexcept {
  Arena counting;
  const Work work(counting, layout);
  return counting.used();
}

std::optional<std::uint64_t> CacheGenCodec::encode_payload(const actors::ChunkView& chunk,
                                                           std::span<std::byte> out,
                                                           std::span<std::byte> scratch) const {
  Arena arena(scratch);
  Work work(arena, *chunk.layout);
  const ChunkGeometry geometry(*chunk.layout, chunk.token_count);
  QuantiserWork& symbols = work.quantiser;
  // Lanes that hold nothing are 0.
  std::fill(symbols.k_symbols.begin(), symbols.k_symbols.end(), std::int16_t{0});
  std::fill(symbols.v_symbols.begin(), symbols.v_symbols.end(), std::int16_t{0});
  std::fill(symbols.k_raw.begin(), symbols.k_raw.end(), std::uint8_t{0});
  std::fill(symbols.v_raw.begin(), symbols.v_raw.end(), std::uint8_t{0});
  for (const bool values : {false, true}) {
    if (!quantise(geometry, chunk, values, work)) return std::nullopt;
  }
  work.form.fit(geometry, symbols);
  const SymbolTables tables = tables_of(work.form);
  SymbolWriter streams(*simd_.rans, geometry, tables, work.streams);
  if (!streams.encode(symbols.k_symbols.data(), symbols.v_symbols.data())) return std::nullopt;
  ByteWriter writer(out);
  writer.put(streams.sizes());
  for (const auto& scales : {symbols.scales, symbols.sums}) {
    for (const float scale : scales.first(chunk.token_count)) writer.put(float_to_half(scale));
  }
  work.form.write(writer, geometry);
  streams.write(writer);
  if (!writer.ok() || writer.used() >= out.size()) return std::nullopt;
  return writer.used();
}

Result<void> CacheGenCodec::decode_payload(std::span<const std::byte> payload,
                                           const actors::MutableChunkView& chunk,
                                           std::span<std::byte> scratch) const {
  Arena arena(scratch);
  Work work(arena, *chunk.layout);
  const ChunkGeometry geometry(*chunk.layout, chunk.token_count);
  QuantiserWork& symbols = work.quantiser;
  ByteReader reader(payload);
  const auto sizes = reader.get<StreamSizes>();
  for (const auto& scales : {symbols.scales, symbols.sums}) {
    for (std::uint32_t token = 0; token < chunk.token_count; ++token) {
      scales[token] = half_to_float(reader.get<std::uint16_t>());
      if (!std::isfinite(scales[token])) return bad_payload("payload: a scale is not finite");
    }
  }
  if (!work.form.read(reader, geometry)) return bad_payload("payload: its channels are damaged");
  const SymbolTables tables = tables_of(work.form);
  SymbolReader streams(*simd_.rans, tables);
  if (!streams.open(reader, sizes, *chunk.layout, work.streams)) {
    return bad_payload("payload: its parts do not fit its size");
  }
  std::int16_t* rows = symbols.k_symbols.data();
  const std::uint32_t dims = chunk.layout->head_dim;
  for (std::uint32_t i = 0; i < geometry.tiles * chunk.layout->kv_heads; ++i) {
    const std::size_t channel = std::size_t{i % chunk.layout->kv_heads} * dims;
    if (!streams.keys(channel, dims, rows)) return bad_payload("K's stream is damaged");
    rows += std::size_t{dims} * kRowValues;
  }
  rows = symbols.v_symbols.data();
  for (std::uint32_t i = 0; i < chunk.layout->kv_heads * geometry.blocks; ++i) {
    for (std::uint32_t first = 0; first < chunk.token_count;) {
      const std::uint32_t count = std::min(SymbolReader::kValueRowsMax, chunk.token_count - first);
      if (!streams.values(std::size_t{i} * kRowValues, count, rows)) {
        return bad_payload("V's stream is damaged");
      }
      rows += std::size_t{count} * kRowValues;
      first += count;
    }
  }
  if (!streams.finished()) return bad_payload("payload: its streams are damaged");
  for (const bool values : {false, true}) dequantise(geometry, chunk, values, work);
  return {};
}

}  // namespace mzcache::codec
