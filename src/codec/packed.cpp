#include "codec/packed.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "codec/q8.h"
#include "codec/raw_tokens.h"

namespace mzcache::codec {
namespace {

constexpr std::uint8_t kQ8Form = 0;
constexpr std::uint8_t kPackedForm = 1;
constexpr std::uint64_t kFormBytes = 4;
constexpr std::uint32_t kTokensMax = 65535;
constexpr QuantiserSteps kSteps{0.8F, 0.65F};
constexpr double kTypicalShare = 0.2;
constexpr std::uint32_t kTilesPerBlock = kPlaneValues / kRowValues;
// Symbols beyond stay raw with their token.
constexpr int kPackedSymbolMax = 2000;

struct Work {
  // Counts where the arena does.
  Work(Arena& arena, const actors::ChunkLayout& layout)
      : quantiser(arena, layout),
        again(arena, layout),
        image(arena.take<std::byte>(layout.bytes())),
        block(arena.take<std::int16_t>(std::size_t{kRowValues} * kPlaneValues)),
        rows(arena.take<std::int16_t>(std::size_t{kRowValues} * kPlaneValues)) {}

  QuantiserWork quantiser;
  QuantiserWork again;         // of what decoding will give
  std::span<std::byte> image;  // that
  std::span<std::int16_t> block;
  std::span<std::int16_t> rows;
};

// Tokens without a symbol take a neighbour's, so that they do not widen a range.
class Filling {
 public:
  Filling(std::span<const std::uint8_t> raw, std::uint32_t first, std::uint32_t token_count) {
    const auto kept = [&](std::uint32_t i) {
      return first + i < token_count && raw[first + i] == 0;
    };
    std::uint32_t last = kPlaneValues;
    for (std::uint32_t i = kPlaneValues; i-- > 0;) {
      if (kept(i)) last = i;
      source_[i] = static_cast<std::uint8_t>(last);
      needed_ = needed_ || last != i;
    }
    // Those behind the last one that is kept take that.
    for (std::uint32_t i = 0; i < kPlaneValues; ++i) {
      if (source_[i] == kPlaneValues && i > 0) source_[i] = source_[i - 1];
    }
  }
  [[nodiscard]] bool needed() const { return needed_; }
  void apply(std::int16_t* low, std::int16_t* high) const {
    std::array<std::int16_t, kPlaneValues + 1> before{};  // the last: nothing is kept
    std::copy_n(low, kRowValues, before.begin());
    std::copy_n(high, kRowValues, before.begin() + kRowValues);
    for (std::uint32_t i = 0; i < kRowValues; ++i) {
      low[i] = before[source_[i]];
      high[i] = before[source_[kRowValues + i]];
    }
  }

 private:
  std::array<std::uint8_t, kPlaneValues> source_{};
  bool needed_ = false;
};

class Packer {
 public:
  Packer(const SimdVariant& simd, const ChunkGeometry& geometry, Work& work,
         std::span<std::byte> out)
      : planes_(*simd.planes),
        geometry_(geometry),
        work_(work),
        at_(out.data()),
        end_(out.data() + out.size()) {}

  // False where the output is full.
  [[nodiscard]] bool keys() {
    std::int16_t* const symbols = work_.quantiser.k_symbols.data();
    const std::size_t tile_values = std::size_t{geometry_.width} * kRowValues;
    for (std::uint32_t tile = 0; tile < geometry_.tiles; tile += kTilesPerBlock) {
      const Filling filling(work_.quantiser.k_raw, tile * kRowValues, geometry_.token_count);
      std::int16_t* const first = symbols + tile * tile_values;
      if (tile + 1 < geometry_.tiles) {
        if (!put(filling, first, first + tile_values, kRowValues, geometry_.width)) return false;
        continue;
      }
      for (std::uint32_t channel = 0; channel < geometry_.width; ++channel) {
        std::int16_t* const row = first + std::size_t{channel} * kRowValues;
        if (!put(filling, row, work_.block.data(), kRowValues, 1)) return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool values() {
    std::int16_t* symbols = work_.quantiser.v_symbols.data();
    std::int16_t* const block = work_.block.data();
    for (std::uint32_t i = 0; i < geometry_.layout.kv_heads * geometry_.blocks; ++i) {
      const std::uint32_t wide = geometry_.block_width(i % geometry_.blocks);
      for (std::uint32_t first = 0; first < geometry_.token_count; first += kPlaneValues) {
        const std::uint32_t rows = std::min(kPlaneValues, geometry_.token_count - first);
        const Filling filling(work_.quantiser.v_raw, first, geometry_.token_count);
        // Whole blocks are turned where they are.
        std::int16_t* const in_rows = rows == kPlaneValues ? symbols : work_.rows.data();
        if (in_rows != symbols) std::copy_n(symbols, std::size_t{rows} * kRowValues, in_rows);
        turn(in_rows, block);
        if (!put(filling, block, block + kRowValues, kPlaneValues, wide)) return false;
        turn_back(block, in_rows);
        if (in_rows != symbols) std::copy_n(in_rows, std::size_t{rows} * kRowValues, symbols);
        symbols += std::size_t{rows} * kRowValues;
      }
    }
    return true;
  }

  [[nodiscard]] std::byte* at() const { return at_; }

 private:
  // 64 rows of 32 to 32 of 64, and back.
  void turn(const std::int16_t* from, std::int16_t* to) const {
    planes_.transpose(from, kRowValues, to, kPlaneValues);
    planes_.transpose(from + std::size_t{kRowValues} * kRowValues, kRowValues, to + kRowValues,
                      kPlaneValues);
  }
  void turn_back(const std::int16_t* from, std::int16_t* to) const {
    planes_.transpose(from, kPlaneValues, to, kRowValues);
    planes_.transpose(from + kRowValues, kPlaneValues, to + std::size_t{kRowValues} * kRowValues,
                      kRowValues);
  }

  [[nodiscard]] bool put(const Filling& filling, std::int16_t* low, std::int16_t* high,
                         std::size_t stride, std::uint32_t count) {
    for (std::uint32_t i = 0; filling.needed() && i < count; ++i) {
      filling.apply(low + i * stride, high + i * stride);
    }
    at_ = planes_.pack_blocks(low, high, stride, count, at_, end_);
    return at_ != nullptr;
  }

  const PlaneKernels& planes_;
  const ChunkGeometry& geometry_;
  Work& work_;
  std::byte* at_;
  std::byte* end_;
};

// Whether what decoding gives is quantised to the very symbols that were packed.
bool same_symbols(const ChunkGeometry& geometry, const QuantiserWork& packed,
                  const QuantiserWork& again) {
  const auto tokens = geometry.token_count;
  if (!std::equal(packed.k_raw.begin(), packed.k_raw.begin() + tokens, again.k_raw.begin()) ||
      !std::equal(packed.v_raw.begin(), packed.v_raw.begin() + tokens, again.v_raw.begin()) ||
      !std::equal(packed.exponents.begin(), packed.exponents.begin() + tokens,
                  again.exponents.begin())) {
    return false;
  }
  for (std::uint32_t row = 0; row < geometry.key_rows(); ++row) {
    const std::size_t at = std::size_t{row} * kRowValues;
    if (std::memcmp(&packed.k_symbols[at], &again.k_symbols[at], kRowBytes) == 0) continue;
    for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
      const std::uint32_t token = row / geometry.width * kRowValues + lane;
      if (token >= tokens || packed.k_raw[token] != 0) continue;
      if (packed.k_symbols[at + lane] != again.k_symbols[at + lane]) return false;
    }
  }
  for (std::uint32_t row = 0; row < geometry.value_rows(); ++row) {
    if (packed.v_raw[row % tokens] != 0) continue;
    const std::size_t at = std::size_t{row} * kRowValues;
    if (std::memcmp(&packed.v_symbols[at], &again.v_symbols[at], kRowBytes) != 0) return false;
  }
  return true;
}

// The chunk's K, V as decoding will give them.
void make_key_image(ChannelQuantiser& quantiser, const ChunkGeometry& geometry,
                    const ChannelPlan& plan, Work& work) {
  const std::uint32_t dims = geometry.layout.head_dim;
  const std::int16_t* symbols = work.quantiser.k_symbols.data();
  for (std::uint32_t tile = 0; tile < geometry.tiles; ++tile) {
    quantiser.turn_to(tile);
    for (std::uint32_t head = 0; head < geometry.layout.kv_heads; ++head) {
      quantiser.put_keys(work.image.data(), plan, tile, head, symbols);
      symbols += std::size_t{dims} * kRowValues;
    }
  }
}

void make_value_image(ChannelQuantiser& quantiser, const ChunkGeometry& geometry,
                      const ChannelPlan& plan, Work& work) {
  const std::int16_t* symbols = work.quantiser.v_symbols.data();
  for (std::uint32_t i = 0; i < geometry.layout.kv_heads * geometry.blocks; ++i) {
    quantiser.put_values(work.image.data(), plan, i / geometry.blocks, i % geometry.blocks, 0,
                         geometry.token_count, symbols);
    symbols += std::size_t{geometry.token_count} * kRowValues;
  }
}

void put_raw_image(const ChannelQuantiser& quantiser, const ChunkGeometry& geometry,
                   const std::byte* chunk, Work& work) {
  for (std::uint32_t token = 0; token < geometry.token_count; ++token) {
    for (const bool values : {false, true}) {
      if ((values ? work.quantiser.v_raw : work.quantiser.k_raw)[token] == 0) continue;
      std::byte* const row = reinterpret_cast<std::byte*>(work.again.k_symbols.data());
      quantiser.copy_raw(chunk, values, token, row);
      quantiser.put_raw(work.image.data(), values, token, row);
    }
  }
}

// Whether a second cycle would change nothing, by going through it.
bool comes_back(const SimdVariant& simd, const RopeOffsets& rope, ChannelQuantiser& quantiser,
                const ChunkGeometry& geometry, const actors::ChunkView& chunk,
                const ChannelPlan& plan, Work& work) {
  make_key_image(quantiser, geometry, plan, work);
  make_value_image(quantiser, geometry, plan, work);
  quantiser.finish();
  put_raw_image(quantiser, geometry, chunk.bytes.data(), work);
  ChannelQuantiser again(*simd.channels, rope, geometry, chunk.first_position, work.again);
  again.quantise(work.image.data(), plan);
  return same_symbols(geometry, work.quantiser, work.again);
}

class Unpacker {
 public:
  Unpacker(const SimdVariant& simd, const ChunkGeometry& geometry, const ChannelPlan& plan,
           ChannelQuantiser& quantiser, Work& work, std::span<const std::byte> blocks)
      : planes_(*simd.planes),
        geometry_(geometry),
        plan_(plan),
        quantiser_(quantiser),
        work_(work),
        at_(blocks.data()),
        end_(blocks.data() + blocks.size()) {}

  // False where the payload ends early.
  [[nodiscard]] bool keys(std::byte* chunk) {
    std::int16_t* const symbols = work_.quantiser.k_symbols.data();
    const std::size_t tile_values = std::size_t{geometry_.width} * kRowValues;
    for (std::uint32_t tile = 0; tile < geometry_.tiles; tile += kTilesPerBlock) {
      // A second tile that is not there is written, too, and left.
      if (!get(geometry_.width, symbols, symbols + tile_values, kRowValues)) return false;
      const std::uint32_t tiles = std::min(kTilesPerBlock, geometry_.tiles - tile);
      for (std::uint32_t i = 0; i < tiles; ++i) {
        quantiser_.turn_to(tile + i);
        for (std::uint32_t head = 0; head < geometry_.layout.kv_heads; ++head) {
          const std::size_t first = std::size_t{head} * geometry_.layout.head_dim * kRowValues;
          quantiser_.put_keys(chunk, plan_, tile + i, head, symbols + i * tile_values + first);
        }
      }
    }
    return true;
  }

  [[nodiscard]] bool values(std::byte* chunk) {
    std::int16_t* const block = work_.block.data();
    std::int16_t* const rows = work_.rows.data();
    for (std::uint32_t i = 0; i < geometry_.layout.kv_heads * geometry_.blocks; ++i) {
      const std::uint32_t wide = geometry_.block_width(i % geometry_.blocks);
      for (std::uint32_t first = 0; first < geometry_.token_count; first += kPlaneValues) {
        if (!get(wide, block, block + kRowValues, kPlaneValues)) return false;
        planes_.transpose(block, kPlaneValues, rows, kRowValues);
        planes_.transpose(block + kRowValues, kPlaneValues,
                          rows + std::size_t{kRowValues} * kRowValues, kRowValues);
        quantiser_.put_values(chunk, plan_, i / geometry_.blocks, i % geometry_.blocks, first,
                              std::min(kPlaneValues, geometry_.token_count - first), rows);
      }
    }
    return true;
  }

  [[nodiscard]] bool at_end() const { return at_ == end_; }

 private:
  [[nodiscard]] bool get(std::uint32_t count, std::int16_t* low, std::int16_t* high,
                         std::size_t stride) {
    at_ = planes_.unpack_blocks(at_, end_, count, low, high, stride);
    return at_ != nullptr;
  }

  const PlaneKernels& planes_;
  const ChunkGeometry& geometry_;
  const ChannelPlan& plan_;
  ChannelQuantiser& quantiser_;
  Work& work_;
  const std::byte* at_;
  const std::byte* end_;
};

}  // namespace

PackedCodec::PackedCodec(const SimdVariant& simd)
    : FramedCodec("packed", CodecId::kPacked, 1), simd_(simd), plans_(kSteps) {}

std::uint64_t PackedCodec::typical_bytes(const actors::ChunkLayout& layout,
                                         std::uint32_t token_count) const noexcept {
  if (plans_.id() == 0) {
    return std::min(bound(layout, token_count),
                    kHeaderBytes + kFormBytes + Q8Codec().typical_bytes(layout, token_count));
  }
  return kHeaderBytes + static_cast<std::uint64_t>(
                            static_cast<double>(valid_bytes(layout, token_count)) * kTypicalShare);
}

std::uint64_t PackedCodec::work_bytes(const actors::ChunkLayout& layout) const noexcept {
  Arena counting;
  const Work work(counting, layout);
  return counting.used();
}

std::optional<std::uint64_t> PackedCodec::encode_payload(const actors::ChunkView& chunk,
                                                         std::span<std::byte> out,
                                                         std::span<std::byte> scratch) const {
  ByteWriter writer(out);
  const LayerPlan* const layer = plans_.find(chunk.layer, *chunk.layout);
  if (chunk.layout->tokens > kTokensMax) return std::nullopt;
  writer.put(std::uint32_t{layer == nullptr ? kQ8Form : kPackedForm});
  if (!writer.ok()) return std::nullopt;
  if (layer == nullptr) {
    const auto size = Q8Codec(*simd_.groups).encode(chunk, out.subspan(kFormBytes), {});
    if (!size) return std::nullopt;
    return kFormBytes + *size;
  }
  Arena arena(scratch);
  Work work(arena, *chunk.layout);
  const ChunkGeometry geometry(*chunk.layout, chunk.token_count);
  const auto rope = ropes_.get(chunk.rope, chunk.layout->head_dim, chunk.layout->tokens);
  ChannelPlan plan = layer->view();
  plan.symbol_max = kPackedSymbolMax;
  ChannelQuantiser quantiser(*simd_.channels, *rope, geometry, chunk.first_position,
                             work.quantiser);
  const std::size_t begin = writer.used();
  // Once more with scales checked one by one, where a second cycle would not find them all.
  using Scales = ChannelQuantiser::Scales;
  for (const Scales when : {Scales::kLater, Scales::kChecked}) {
    quantiser.quantise(chunk.bytes.data(), plan, when);
    const bool sure = quantiser.sure(plan);
    ByteWriter prefix(out.subspan(begin));
    prefix.put(plans_.id());
    prefix.put_bytes(std::as_bytes(work.quantiser.exponents.first(chunk.token_count)));
    put_raw_tokens(prefix, quantiser, geometry, work.quantiser, chunk.bytes.data());
    if (!prefix.ok()) return std::nullopt;
    Packer packer(simd_, geometry, work, out.subspan(begin + prefix.used()));
    if (!packer.keys() || !packer.values()) return std::nullopt;
    const auto used = static_cast<std::size_t>(packer.at() - out.data());
    if (used >= out.size()) return std::nullopt;
    quantiser.make_scales();
    if (sure ? quantiser.finds_scales(plan)
             : comes_back(simd_, *rope, quantiser, geometry, chunk, plan, work)) {
      return used;
    }
    if (!sure) break;
  }
  return std::nullopt;
}

Result<void> PackedCodec::decode_payload(std::span<const std::byte> payload,
                                         const actors::MutableChunkView& chunk,
                                         std::span<std::byte> scratch) const {
  if (chunk.layout->tokens > kTokensMax) return bad_payload("layout: more than 65535 tokens");
  ByteReader reader(payload);
  const auto form = reader.get<std::uint32_t>();
  if (!reader.ok() || form > kPackedForm) return bad_payload("payload: of another form");
  if (form == kQ8Form) return Q8Codec(*simd_.groups).decode(payload.subspan(kFormBytes), chunk, {});
  const LayerPlan* const layer = plans_.find(chunk.layer, *chunk.layout);
  const auto id = reader.get<std::uint32_t>();
  if (layer == nullptr || id != plans_.id()) {
    return bad_payload("payload: made with profile " + std::to_string(id) + ", in use is " +
                       std::to_string(plans_.id()));
  }
  Arena arena(scratch);
  Work work(arena, *chunk.layout);
  const ChunkGeometry geometry(*chunk.layout, chunk.token_count);
  const auto exponents = reader.take(chunk.token_count);
  RawTokens raw;
  if (!reader.ok() || !get_raw_tokens(reader, geometry, raw)) {
    return bad_payload("payload: its raw tokens are damaged");
  }
  std::memcpy(work.quantiser.exponents.data(), exponents.data(), exponents.size());
  const auto rope = ropes_.get(chunk.rope, chunk.layout->head_dim, chunk.layout->tokens);
  const ChannelPlan plan = layer->view();
  ChannelQuantiser quantiser(*simd_.channels, *rope, geometry, chunk.first_position,
                             work.quantiser);
  quantiser.make_scales();
  Unpacker unpacker(simd_, geometry, plan, quantiser, work, reader.take(reader.left()));
  if (!unpacker.keys(chunk.bytes.data()) || !unpacker.values(chunk.bytes.data()) ||
      !unpacker.at_end()) {
    return bad_payload("payload: its blocks do not fit its size");
  }
  quantiser.finish();
  restore_raw_tokens(raw, quantiser, geometry, chunk.bytes.data());
  return {};
}

}  // namespace mzcache::codec
