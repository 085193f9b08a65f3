// Models with sliding windows: what left every window is given back, which changes no bit.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "support/catch.h"
#include "system/scripts.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

// Bytes of the chunks that the token after `tokens` looks at, and of all chunks.
struct KvBytes {
  std::uint64_t seen = 0;
  std::uint64_t all = 0;
};
KvBytes kv_bytes(const std::string& path, std::uint32_t tokens) {
  const auto model = engine::describe_model(engine::GgufFile::open(path).value()).value();
  const std::uint32_t chunks = (tokens + model.chunk_tokens - 1) / model.chunk_tokens;
  KvBytes bytes;
  for (const auto& layer : model.layer) {
    const std::uint32_t first = layer.first_visible(tokens) / model.chunk_tokens;
    bytes.seen += (chunks - std::min(first, chunks)) * model.chunk_bytes();
    bytes.all += chunks * model.chunk_bytes();
  }
  return bytes;
}

}  // namespace

TEST_CASE("what left the windows is freed, or kept, and no bit changes") {
  const auto name =
      GENERATE(as<std::string>{}, "llama-window", "llama-window-wide", "gemma2", "gemma3");
  INFO(name);
  const std::string path = committed_golden() + "/models/" + name + ".gguf";
  System freeing(path, {"memory.codec=none"});
  System keeping(path, {"memory.codec=none", "memory.free_out_of_window=false"});
  const std::vector<Script> scripts{
      {Feed{900}, Feed{1}, Feed{130}},
      {Feed{900}, EvictPercent{100}, Feed{1}, EvictPercent{40}, Feed{130}, EvictPercent{70}},
      {Feed{260}, EvictPercent{60}, RestoreAll{}, Feed{700}, EvictPercent{100}, RestoreAll{},
       Feed{71}},
  };
  for (const Script& script : scripts) {
    INFO(describe(script));
    const Played wanted = play(keeping, only_feeds(script));
    for (System* system : {&freeing, &keeping}) {
      const Played found = play(*system, script);
      CHECK(same_bits(found.rows, wanted.rows));
      CHECK_FALSE(found.recomputed);
    }
    const KvBytes bytes = kv_bytes(path, 1031);
    REQUIRE(bytes.seen < bytes.all);
    CHECK(freeing.status().kv_bytes == bytes.seen);
    CHECK(keeping.status().kv_bytes <= bytes.all);
  }
  // Everything comes back, and that is less than was computed.
  (void)freeing.evict(100);
  (void)freeing.restore();
  const StatusReport status = freeing.status();
  CHECK(status.resident.bytes == status.footprint_bytes);
  CHECK(status.kv_bytes < kv_bytes(path, 1031).all);
}
