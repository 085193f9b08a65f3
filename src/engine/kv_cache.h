// The KV cache: contexts, their tokens, and how far each is computed. Where the chunks are is the
// residency's business.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/units.h"
#include "mzcache/reports.h"

namespace mzcache::engine {

// One conversation. tokens is the truth; K and V exist for the first kv_tokens of them (the last
// sampled token is usually still to be computed).
struct Context {
  std::uint32_t id = 0;
  std::vector<Token> tokens;
  std::uint32_t kv_tokens = 0;
  std::uint32_t chunks = 0;  // allocated (in whatever place), the same in every layer
  std::uint32_t tokens_max = 0;
  // While a turn may still be taken back: the tokens before it.
  std::optional<std::uint32_t> taken_back_to;

  // The earliest position that can be computed next.
  [[nodiscard]] std::uint32_t next_position() const noexcept {
    return std::min(kv_tokens, taken_back_to.value_or(kv_tokens));
  }
  // Valid tokens in a chunk.
  [[nodiscard]] std::uint32_t tokens_in_chunk(std::uint32_t chunk,
                                              std::uint32_t chunk_tokens) const noexcept {
    const std::uint32_t begin = chunk * chunk_tokens;
    if (kv_tokens <= begin) return 0;
    return kv_tokens - begin < chunk_tokens ? kv_tokens - begin : chunk_tokens;
  }
};

class KvCache {
 public:
  Context& open(std::uint32_t id, std::uint32_t tokens_max) {
    Context& context = contexts_[id];
    context.id = id;
    context.tokens_max = tokens_max;
    return context;
  }
  void close(std::uint32_t id) { contexts_.erase(id); }
  [[nodiscard]] Context* find(std::uint32_t id) {
    const auto found = contexts_.find(id);
    return found == contexts_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::map<std::uint32_t, Context>& contexts() noexcept { return contexts_; }
  [[nodiscard]] const std::map<std::uint32_t, Context>& contexts() const noexcept {
    return contexts_;
  }

 private:
  std::map<std::uint32_t, Context> contexts_;
};

}  // namespace mzcache::engine
