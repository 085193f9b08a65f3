#include "codec/symbol_streams.h"

#include <algorithm>
#include <array>

namespace mzcache::codec {
namespace {

constexpr std::size_t kStateBytes = sizeof(RansDecoder::states);

// Symbols outside their table's alphabet become escapes.
std::uint32_t take_row(std::int16_t* row, const std::int16_t* limits, std::int16_t* out) {
  unsigned outside = 0;
  for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
    outside |= static_cast<unsigned>(row[lane] > limits[lane]) |
               static_cast<unsigned>(row[lane] < -limits[lane]);
  }
  if (outside == 0) return 0;
  std::uint32_t count = 0;
  for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
    if (row[lane] <= limits[lane] && row[lane] >= -limits[lane]) continue;
    out[count++] = row[lane];
    row[lane] = kEscape;
  }
  return count;
}

}  // namespace

std::uint64_t StreamWork::slack_bytes(const actors::ChunkLayout& layout) {
  const std::uint64_t rows = std::max(layout.head_dim, SymbolReader::kValueRowsMax);
  return (rows + 1) * kRansRowWords * 2;
}

StreamWork::StreamWork(Arena& arena, const actors::ChunkLayout& layout)
    : words(arena.take<std::byte>(layout.bytes() + 2 * slack_bytes(layout))),
      escapes(arena.take<std::int16_t>(std::uint64_t{2} *
                                       ChunkGeometry(layout, layout.tokens).padded_values())) {}

void SymbolWriter::take_escapes(std::int16_t* k_symbols, std::int16_t* v_symbols) {
  const RansTables& tables = rans_tables();
  std::int16_t* out = work_.escapes.data();
  std::array<std::int16_t, kRowValues> limits{};
  for (std::uint32_t row = 0; row < geometry_.key_rows(); ++row) {
    limits.fill(tables.limit[tables_.k_class[row % geometry_.width]]);
    out += take_row(k_symbols + std::size_t{row} * kRowValues, limits.data(), out);
  }
  sizes_.escapes[0] = static_cast<std::uint32_t>(out - work_.escapes.data());
  for (std::uint32_t i = 0; i < geometry_.layout.kv_heads * geometry_.blocks; ++i) {
    for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
      limits[lane] = tables.limit[tables_.v_class[i * kRowValues + lane]];
    }
    for (std::uint32_t token = 0; token < geometry_.token_count; ++token) {
      out += take_row(v_symbols, limits.data(), out);
      v_symbols += kRowValues;
    }
  }
  sizes_.escapes[1] = static_cast<std::uint32_t>(out - work_.escapes.data()) - sizes_.escapes[0];
}

bool SymbolWriter::encode(std::int16_t* k_symbols, std::int16_t* v_symbols) {
  take_escapes(k_symbols, v_symbols);
  // Words end where the buffer does, V's in front of K's.
  std::byte* const begin = work_.words.data();
  std::byte* const end = begin + work_.words.size();
  const RansTables& tables = rans_tables();
  rans_start(encoders_[0], begin, end, geometry_.key_rows());
  for (std::uint32_t row = geometry_.key_rows(); row-- > 0;) {
    if (!rans_.encode(encoders_[0], tables, tables_.k_class + row % geometry_.width, false,
                      k_symbols + std::size_t{row} * kRowValues)) {
      return false;
    }
  }
  rans_start(encoders_[1], begin, encoders_[0].words, geometry_.value_rows());
  for (std::uint32_t row = geometry_.value_rows(); row-- > 0;) {
    const std::size_t first_lane = std::size_t{row / geometry_.token_count} * kRowValues;
    if (!rans_.encode(encoders_[1], tables, tables_.v_class + first_lane, true,
                      v_symbols + std::size_t{row} * kRowValues)) {
      return false;
    }
  }
  sizes_.words[0] = static_cast<std::uint32_t>(end - encoders_[0].words) / 2;
  sizes_.words[1] = static_cast<std::uint32_t>(encoders_[0].words - encoders_[1].words) / 2;
  return true;
}

void SymbolWriter::write(ByteWriter& out) const {
  const std::size_t escapes = std::size_t{sizes_.escapes[0]} + sizes_.escapes[1];
  out.put_bytes(std::as_bytes(work_.escapes.first(escapes)));
  for (const RansEncoder& encoder : encoders_) out.put(encoder.states);
  for (unsigned half = 0; half < 2; ++half) {
    out.put_bytes({encoders_[half].words, std::size_t{sizes_.words[half]} * 2});
  }
}

bool SymbolReader::open(ByteReader& in, const StreamSizes& sizes, const actors::ChunkLayout& layout,
                        StreamWork& work) {
  const std::uint64_t escape_count = std::uint64_t{sizes.escapes[0]} + sizes.escapes[1];
  const auto escapes = in.take(escape_count * 2);
  const auto states = in.take(2 * kStateBytes);
  const std::uint64_t word_bytes[2] = {std::uint64_t{sizes.words[0]} * 2,
                                       std::uint64_t{sizes.words[1]} * 2};
  const auto words = in.take(word_bytes[0] + word_bytes[1]);
  const std::uint64_t slack = StreamWork::slack_bytes(layout);
  if (!in.ok() || in.left() != 0 || escape_count > work.escapes.size() ||
      words.size() + 2 * slack > work.words.size()) {
    return false;
  }
  std::memcpy(work.escapes.data(), escapes.data(), escapes.size());
  std::byte* to = work.words.data();
  const std::byte* from = words.data();
  const std::int16_t* escape = work.escapes.data();
  for (unsigned half = 0; half < 2; ++half) {
    Stream& stream = streams_[half];
    std::memcpy(to, from, word_bytes[half]);
    std::memset(to + word_bytes[half], 0, slack);
    std::memcpy(stream.decoder.states, states.data() + half * kStateBytes, kStateBytes);
    stream.decoder.words = to;
    stream.decoder.set = 0;
    stream.end = to + word_bytes[half];
    stream.escapes = escape;
    escape += sizes.escapes[half];
    stream.escapes_end = escape;
    from += word_bytes[half];
    to += word_bytes[half] + slack;
  }
  return true;
}

// Puts escapes in their places. False where there are more than were kept.
bool SymbolReader::Stream::fill(std::int16_t* symbols, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kRowValues) {
    unsigned any = 0;
    for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
      any |= static_cast<unsigned>(symbols[i + lane] == kEscape);
    }
    for (std::uint32_t lane = 0; any != 0 && lane < kRowValues; ++lane) {
      if (symbols[i + lane] != kEscape) continue;
      if (escapes == escapes_end) return false;
      symbols[i + lane] = *escapes++;
    }
  }
  return true;
}

bool SymbolReader::Stream::finished() const {
  const std::uint32_t* const states = &decoder.states[0][0];
  const bool at_rest = std::all_of(states, states + std::size_t{kRansSets} * kRansLanes,
                                   [](std::uint32_t state) { return state == kRansLow; });
  return at_rest && decoder.words == end && escapes == escapes_end;
}

bool SymbolReader::keys(std::size_t first_channel, std::uint32_t rows, std::int16_t* symbols) {
  Stream& stream = streams_[0];
  const bool escapes = rans_.decode(stream.decoder, rans_tables(), tables_.k_class + first_channel,
                                    false, rows, symbols);
  if (stream.decoder.words > stream.end) return false;
  if (escapes && !stream.fill(symbols, std::size_t{rows} * kRowValues)) return false;
  for (std::uint32_t row = 0; tables_.k_offset != nullptr && row < rows; ++row) {
    const std::int16_t offset = tables_.k_offset[first_channel + row];
    std::int16_t* const lanes = symbols + std::size_t{row} * kRowValues;
    for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
      lanes[lane] = static_cast<std::int16_t>(lanes[lane] + offset);
    }
  }
  return true;
}

bool SymbolReader::values(std::size_t first_lane, std::uint32_t rows, std::int16_t* symbols) {
  Stream& stream = streams_[1];
  const bool escapes = rans_.decode(stream.decoder, rans_tables(), tables_.v_class + first_lane,
                                    true, rows, symbols);
  if (stream.decoder.words > stream.end) return false;
  if (escapes && !stream.fill(symbols, std::size_t{rows} * kRowValues)) return false;
  for (std::uint32_t row = 0; tables_.v_offset != nullptr && row < rows; ++row) {
    std::int16_t* const lanes = symbols + std::size_t{row} * kRowValues;
    for (std::uint32_t lane = 0; lane < kRowValues; ++lane) {
      lanes[lane] = static_cast<std::int16_t>(lanes[lane] + tables_.v_offset[first_lane + lane]);
    }
  }
  return true;
}

bool SymbolReader::finished() const { return streams_[0].finished() && streams_[1].finished(); }

}  // namespace mzcache::codec
