// memory.compressed_attention: attention over chunks that stay encoded in memory is that over the
// same chunks restored, bit for bit, and brings none of them back.
#include <optional>
#include <string>
#include <utility>

#include "support/catch.h"
#include "system/system_harness.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

const std::string kModel = committed_golden() + "/models/llama-gqa.gguf";
constexpr std::uint32_t kContext = 1500;

// The model with the mode on; nothing where the device cannot.
std::optional<System> open(Settings settings = {}) {
  settings.emplace_back("memory.compressed_attention=true");
  try {
    return std::optional<System>(std::in_place, kModel, settings);
  } catch (const Exception& exception) {
    if (exception.error().code != ErrorCode::kUnsupported) throw;
    CHECK(exception.error().field == "memory.compressed_attention");
    return std::nullopt;
  }
}

std::uint64_t chunk_bytes(const StatusReport& status) {
  return status.kv_bytes / ((kContext + 255) / 256);
}

}  // namespace

TEST_CASE("chunks read in place give the same bits as the same chunks restored") {
  std::optional<System> system = open();
  if (!system) return;
  for (const double percent : {5.0, 25.0, 60.0, 100.0}) {
    for (const std::uint32_t more : {1U, 9U, 300U}) {
      INFO(percent << " % evicted, then " << more << " tokens");
      const auto tokens = made_up_tokens(kContext + more, system->model().info().vocabulary);
      std::vector<std::vector<float>> rows;
      for (const bool restored : {true, false}) {
        system->reset();
        (void)system->last_logits(std::span(tokens).first(kContext));
        (void)system->evict(percent);
        if (restored) (void)system->restore();
        rows.push_back(system->last_logits(std::span(tokens).subspan(kContext)));
      }
      CHECK(same_bits(rows[0], rows[1]));
    }
  }
}

TEST_CASE("an answer brings back no full chunk that lies in memory, a Restore does") {
  std::optional<System> system = open();
  if (!system) return;
  const auto tokens = made_up_tokens(kContext + 8, system->model().info().vocabulary);
  (void)system->last_logits(std::span(tokens).first(kContext));
  const std::uint64_t kv_bytes = system->status().kv_bytes;
  const EvictReport evicted = system->ask(Evict{kv_bytes / 3});
  REQUIRE(evicted.units.kv_compressed > 0);
  CHECK(evicted.units.kv_stored + evicted.units.weights_dropped == 0);
  CHECK(evicted.restore_memory_ms == 0);
  const StatusReport before = system->status();
  Evaluate evaluate;
  evaluate.session = system->session();
  evaluate.tokens.assign(tokens.begin() + kContext, tokens.end());
  evaluate.positions = {7};
  const LogitRows answer = system->ask(std::move(evaluate));
  // The started chunk of a layer is written to.
  const std::uint64_t started = chunk_bytes(before);
  CHECK(answer.restore.bytes_decoded <= started);
  CHECK(system->status().compressed.bytes + started >= before.compressed.bytes);
  CHECK(system->restore().bytes_decoded > 0);
  CHECK(system->status().compressed.units == 0);
}

TEST_CASE("compressed attention names what it needs") {
  for (const auto& [setting, word] : {std::pair{"memory.codec=entropy", "q8"},
                                      {"memory.codec=none", "q8"},
                                      {"device.kernels=portable", "cpu kernels"}}) {
    INFO(setting);
    try {
      const System system(kModel, {setting, "memory.compressed_attention=true"});
      FAIL("was accepted");
    } catch (const Exception& exception) {
      CHECK(exception.error().code == ErrorCode::kUnsupported);
      CHECK(exception.error().field == "memory.compressed_attention");
      CHECK(exception.error().message().find(word) != std::string::npos);
    }
  }
}
