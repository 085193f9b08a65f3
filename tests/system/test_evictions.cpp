// Without a lossy codec an eviction changes no bit of any logit that comes after it, whatever was
// evicted, however often, on whatever path. The reference is the same calls without the evictions.
#include <map>
#include <string>
#include <vector>

#include "support/catch.h"
#include "system/scripts.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

const std::string kModel = committed_golden() + "/models/llama-gqa.gguf";
const std::vector<double> kPercents{1, 10, 50, 90, 100};
const std::vector<std::uint32_t> kContexts{1, 255, 256, 257, 700, 1500};

// Several evictions in a row, deeper and shallower, restored in between or not.
std::vector<Script> repeated(std::uint32_t context) {
  return {
      {Feed{context}, EvictPercent{10}, EvictPercent{50}, EvictPercent{1}, EvictPercent{100},
       Feed{40}, EvictPercent{30}, Feed{1}, EvictPercent{100}, EvictPercent{100}, Feed{7}},
      {Feed{context}, EvictPercent{50}, RestoreAll{}, EvictPercent{50}, RestoreAll{}, RestoreAll{},
       EvictPercent{100}, RestoreAll{}, Feed{1}, EvictPercent{90}, Feed{300}},
      {EvictPercent{100}, Feed{context}, EvictPercent{25}, EvictPercent{25}, EvictPercent{25},
       EvictPercent{25}, Feed{1}, EvictPercent{25}, Feed{1}, EvictPercent{100}, Feed{1}},
  };
}

std::vector<Script> scripts(const std::vector<std::uint32_t>& contexts) {
  std::vector<Script> all;
  for (const std::uint32_t context : contexts) {
    for (const double percent : kPercents) {
      all.push_back({Feed{context}, EvictPercent{percent}, Feed{40}});
    }
    for (Script& script : repeated(context)) all.push_back(std::move(script));
  }
  return all;
}

void check_bits(System& system, System& reference, const Script& script) {
  INFO(describe(script));
  const Played wanted = play(reference, only_feeds(script));
  const Played found = play(system, script);
  CHECK(same_bits(found.rows, wanted.rows));
  CHECK_FALSE(found.recomputed);
  for (const EvictReport& eviction : found.evictions) {
    CHECK((eviction.freed_bytes >= eviction.requested_bytes || eviction.all_there_is));
  }
}

struct Variant {
  const char* name;
  Settings settings;
};

const std::vector<Variant> kVariants{
    {"reads and writes in threads", {"memory.codec=none", "storage.engine=threads"}},
    {"small pages", {"memory.codec=none", "memory.huge_pages=false"}},
    {"forward-out", {"memory.codec=none", "policy.order=forward-out"}},
    {"random-out", {"memory.codec=none", "policy.order=random-out", "policy.seed=7"}},
    {"a block at a time", {"memory.codec=none", "storage.block=4096", "storage.depth=1"}},
    {"buffered", {"memory.codec=none", "storage.direct=false"}},
    {"storage only", {"memory.codec=none", "policy.paths=storage"}},
    {"memory asked for, nothing lossy given", {"memory.codec=none", "policy.paths=memory"}},
    {"several workers",
     {"memory.codec=none", "placement.allocator={cores='any',workers=3}",
      "placement.decompressor={cores='any',workers=2}"}},
};

}  // namespace

TEST_CASE("evictions change no bit at any context length") {
  System reference(kModel, {"memory.codec=none"});
  System system(kModel, {"memory.codec=none"});
  for (const Script& script : scripts(kContexts)) check_bits(system, reference, script);
}

TEST_CASE("evictions change no bit on any path") {
  System reference(kModel, {"memory.codec=none"});
  for (const Variant& variant : kVariants) {
    INFO(variant.name);
    System system(kModel, variant.settings);
    for (const Script& script : scripts({257, 700})) check_bits(system, reference, script);
  }
}

TEST_CASE("an eviction of one conversation or several changes no bit of either") {
  System reference(kModel, {"memory.codec=none"});
  System system(kModel, {"memory.codec=none"});
  const Session other = system.model().open_session();
  const Session other_reference = reference.model().open_session();
  const auto tokens = made_up_tokens(400, system.model().info().vocabulary);
  const auto more = std::vector<Token>(tokens.begin(), tokens.begin() + 30);
  const auto talk = [&](System& who, Session second, bool evict) {
    std::vector<float> rows;
    const auto feed = [&](Session session, const std::vector<Token>& words) {
      const auto row =
          who.ask(Evaluate{session, words, {static_cast<std::uint32_t>(words.size() - 1)}}).values;
      rows.insert(rows.end(), row.begin(), row.end());
    };
    feed(who.session(), tokens);
    if (evict) (void)who.evict(60);
    feed(second, tokens);
    if (evict) (void)who.evict(100);
    feed(who.session(), more);
    if (evict) (void)who.evict(40);
    feed(second, more);
    return rows;
  };
  CHECK(same_bits(talk(system, other, true), talk(reference, other_reference, false)));
}
