// The real model: evictions without a lossy codec change no bit; with 8 bits the first restore is
// near and every further one changes nothing.
#include <optional>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/model_path.h"
#include "system/scripts.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

constexpr std::uint32_t kContext = 700;
constexpr double kLossyRmsMax = 0.1;
constexpr double kFourBitsRmsMax = 1.0;
constexpr double kRecomputedRmsMax = 0.02;

// Every weight and nearly every chunk leaves, and no chunk has to leave the memory for it: 8 bits
// save 47 %.
std::uint64_t all_but_the_swap(const StatusReport& status) {
  return status.weights_bytes + status.kv_bytes * 2 / 5;
}

struct Cycled {
  std::vector<float> rows;
  std::vector<EvictReport> evictions;
};

// Logits after a context that was evicted and restored so many times. `bytes`: of the footprint.
template <class Bytes>
Cycled cycled(System& system, int cycles, Bytes bytes) {
  system.reset();
  const auto tokens = made_up_tokens(kContext + 16, system.model().info().vocabulary);
  (void)system.last_logits(std::span(tokens).first(kContext));
  Cycled result;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    result.evictions.push_back(system.ask(Evict{bytes(system.status())}));
    (void)system.restore();
    CHECK(system.status().resident.bytes == system.status().footprint_bytes);
  }
  result.rows = system.last_logits(std::span(tokens).subspan(kContext));
  return result;
}

// One restore is near the original, and eleven are the same bits as one.
template <class Bytes>
std::vector<EvictReport> check_projection(System& system, Bytes bytes) {
  const Cycled resident = cycled(system, 0, bytes);
  const Cycled once = cycled(system, 1, bytes);
  const Cycled often = cycled(system, 11, bytes);
  const double rms = rms_difference(once.rows, resident.rows);
  CHECK(rms > 0);  // it was really encoded
  CHECK(rms <= kLossyRmsMax);
  CHECK(same_bits(often.rows, once.rows));
  return often.evictions;
}

}  // namespace

TEST_CASE("evictions of the real model change no bit without a lossy codec") {
  const std::string storage_codec = GENERATE("none", "split-zstd");
  System system(model_path(), {"memory.codec=none", "memory.storage_codec=" + storage_codec});
  const std::vector<Script> scripts{
      {Feed{kContext}, EvictPercent{1}, Feed{1}, EvictPercent{10}, Feed{1}, EvictPercent{50},
       Feed{1}, EvictPercent{90}, Feed{1}, EvictPercent{100}, Feed{20}},
      {Feed{257}, EvictPercent{50}, EvictPercent{50}, RestoreAll{}, EvictPercent{100}, RestoreAll{},
       EvictPercent{90}, Feed{300}, EvictPercent{100}, Feed{8}},
      {Feed{1500}, EvictPercent{50}, EvictPercent{100}, Feed{8}},
  };
  for (const Script& script : scripts) {
    INFO(describe(script));
    const Played wanted = play(system, only_feeds(script));
    const Played found = play(system, script);
    CHECK(same_bits(found.rows, wanted.rows));
    CHECK_FALSE(found.recomputed);
  }
}

TEST_CASE("8 bits: chunks swapped through memory again and again do not change any further") {
  // Without a swap file nothing can leave the in-memory swap for it.
  System system(model_path(), {"memory.codec=q8", "policy.paths=memory", "memory.swap_file_max=0"});
  const auto evictions = check_projection(system, all_but_the_swap);
  REQUIRE(evictions.size() == 11);
  const std::uint32_t chunks = system.model().info().layers * ((kContext + 255) / 256);
  for (const EvictReport& eviction : evictions) {
    // The same chunks every time, encoded anew every time, and nothing written.
    CHECK(eviction.units.kv_compressed == evictions.front().units.kv_compressed);
    CHECK(eviction.units.kv_compressed >= chunks * 3 / 4);
    CHECK(eviction.units.kv_clean == 0);
    CHECK(eviction.bytes_written == 0);
  }
}

TEST_CASE("8 bits: chunks that leave both ways do not change any further") {
  System system(model_path(), {"memory.codec=q8"});
  (void)check_projection(system, [](const StatusReport& status) { return status.footprint_bytes; });
  (void)check_projection(system,
                         [](const StatusReport& status) { return status.footprint_bytes / 2; });
}

TEST_CASE("two lossy codecs: what a chunk was stored as is what it stays, run after run") {
  // With rates given a plan depends on nothing that is measured. Storage's codec decodes fast and
  // the weights are soon read: both paths take chunks.
  const Settings settings{"memory.codec=q8",
                          "memory.storage_codec=q4",
                          "profile.read_bytes_per_s=2e10",
                          "profile.decode_bytes_per_s=1e9",
                          "profile.storage_decode_bytes_per_s=1e10",
                          "profile.allocate_bytes_per_s=1e10"};
  const auto half = [](const StatusReport& status) { return status.footprint_bytes / 2; };
  System system(model_path(), settings);
  const Cycled resident = cycled(system, 0, half);
  const Cycled once = cycled(system, 1, half);
  CHECK(once.evictions.front().storage_bytes_encoded > 0);
  CHECK(once.evictions.front().bytes_encoded > once.evictions.front().storage_bytes_encoded);
  const double rms = rms_difference(once.rows, resident.rows);
  CHECK(rms > 0);
  CHECK(rms <= kFourBitsRmsMax);
  System another(model_path(), settings);
  CHECK(same_bits(cycled(another, 1, half).rows, once.rows));
  // What was stored is not stored anew, and what was compressed goes the same way again.
  const Cycled often = cycled(system, 5, half);
  CHECK(same_bits(often.rows, once.rows));
  for (std::size_t i = 1; i < often.evictions.size(); ++i) {
    CHECK(often.evictions[i].storage_bytes_encoded == 0);
    CHECK(often.evictions[i].bytes_written == 0);
  }
}

TEST_CASE("a codec for storage alone: what is lossy is the swap file") {
  System system(model_path(), {"memory.codec=none", "memory.storage_codec=q8"});
  const auto evictions =
      check_projection(system, [](const StatusReport& status) { return status.footprint_bytes; });
  const EvictReport& first = evictions.front();
  CHECK(first.units.kv_compressed == 0);
  CHECK(first.units.kv_stored > 0);
  CHECK(first.bytes_encoded == first.storage_bytes_encoded);
  CHECK(first.bytes_written < first.bytes_encoded * 6 / 10);
}

TEST_CASE("the same tokens in other slices give nearly the same logits") {
  // Rounding activations to 8 bits would make more of the last bits that slices differ in.
  System system(model_path(), {"device.activations=float"});
  const auto tokens = made_up_tokens(kContext, system.model().info().vocabulary);
  const std::vector<float> whole = system.last_logits(tokens);
  for (const std::uint32_t slice : {100U, 33U}) {
    system.reset();
    CHECK(rms_difference(system.last_logits(tokens, slice), whole) <= kRecomputedRmsMax);
  }
}

TEST_CASE("8 bits: chunks that are read in place give the same bits as restored ones") {
  std::optional<System> opened;
  try {
    opened.emplace(model_path(), Settings{"memory.compressed_attention=true"});
  } catch (const Exception& exception) {
    if (exception.error().code == ErrorCode::kUnsupported) return;  // no processor for it
    throw;
  }
  System& system = *opened;
  const auto tokens = made_up_tokens(kContext + 40, system.model().info().vocabulary);
  for (const double percent : {10.0, 50.0, 75.0}) {
    for (const std::uint32_t more : {1U, 40U}) {
      INFO(percent << " % evicted, then " << more << " tokens");
      std::vector<std::vector<float>> rows;
      for (const bool restored : {true, false}) {
        system.reset();
        (void)system.last_logits(std::span(tokens).first(kContext));
        CHECK(system.evict(percent).units.kv_compressed > 0);
        if (restored) (void)system.restore();
        rows.push_back(system.last_logits(std::span(tokens).subspan(kContext, more)));
      }
      CHECK(same_bits(rows[0], rows[1]));
    }
  }
}
