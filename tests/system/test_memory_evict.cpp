// Memory is really gone after an Evict, never grows during one, and nothing but scratch is left
// after the last. The first witness is the process's own PSS.
#include <algorithm>
#include <cstdio>

#include "mzcache/runtime.h"
#include "support/catch.h"
#include "support/model_path.h"
#include "system/memory_probe.h"
#include "system/system_messages.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

constexpr std::uint32_t kContextTokens = 2100;
constexpr std::uint64_t kSegmentBytes = 2 * kMiB;

struct Variant {
  const char* codec;
  bool huge_pages;
};
constexpr Variant kVariants[] = {{"q8", true}, {"q8", false}, {"none", true}, {"none", false}};

Config config_of(const Variant& variant) {
  Config config;
  config.memory.codec = variant.codec;
  config.memory.huge_pages = variant.huge_pages;
  return config;
}

// What an Evict of so much must have done to the PSS.
std::uint64_t least_drop(std::uint64_t freed) {
  const std::uint64_t most = std::max(freed / 100 * 95, freed > 2 * kMiB ? freed - 2 * kMiB : 0);
  return std::min(freed / 100 * 95, most);
}

class Conversation {
 public:
  explicit Conversation(const Config& config, std::uint32_t tokens = kContextTokens)
      : runtime_(config),
        model_(runtime_.load(model_path())),
        session_(model_.open_session()),
        loaded_(pss_bytes()) {
    (void)ask(runtime_, evaluate(session_, some_tokens(tokens, 49000, 11)));
    go_on();
  }

  // A few tokens, so that the scratch is that of decoding and no longer that of a long slice.
  void go_on() { (void)ask(runtime_, generate(session_, some_tokens(3, 49000, 12), 2)); }
  EvictReport evict(const Evict& message) {
    const std::uint64_t before = pss_bytes();
    EvictReport report = ask(runtime_, message);
    const std::uint64_t after = pss_bytes();
    dropped_ = before > after ? before - after : 0;
    return report;
  }
  void restore() { (void)ask(runtime_, Restore{}); }
  StatusReport status() { return ask(runtime_, Status{}); }

  [[nodiscard]] Runtime& runtime() { return runtime_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] std::uint64_t loaded() const { return loaded_; }

 private:
  Runtime runtime_;
  Model model_;
  Session session_;
  std::uint64_t loaded_;
  std::uint64_t dropped_ = 0;
};

void check_drop(Conversation& conversation, const EvictReport& report) {
  const std::uint64_t least = least_drop(report.freed_bytes);
  INFO("requested " << report.requested_bytes << ", freed " << report.freed_bytes
                    << ", PSS fell by " << conversation.dropped() << ", least " << least);
  CHECK(report.freed_bytes > 0);
  CHECK((report.freed_bytes >= report.requested_bytes || report.all_there_is));
  CHECK(conversation.dropped() >= least);
  // The report's own figure is taken by the runtime and says the same.
  CHECK(report.pss_drop_bytes >= static_cast<std::int64_t>(least));
}

}  // namespace

TEST_CASE("the PSS falls by what an eviction says, whatever the amount") {
  for (const Variant& variant : kVariants) {
    CAPTURE(variant.codec, variant.huge_pages);
    Conversation conversation(config_of(variant));
    for (const double percent : {1.0, 5.0, 10.0, 20.0, 35.0, 50.0, 75.0, 90.0, 100.0}) {
      CAPTURE(percent);
      conversation.restore();
      check_drop(conversation, conversation.evict(evict_percent(percent)));
    }
    // After other evictions, until nothing is left.
    conversation.restore();
    for (int step = 0; step < 12; ++step) {
      const EvictReport report = conversation.evict(evict_percent(step % 2 == 0 ? 3.0 : 14.0));
      CAPTURE(step);
      if (report.freed_bytes == 0) break;
      check_drop(conversation, report);
    }
  }
}

TEST_CASE("the PSS does not rise while an eviction runs, and no page cache grows") {
  for (const Variant& variant : kVariants) {
    CAPTURE(variant.codec, variant.huge_pages);
    const Config config = config_of(variant);
    Conversation conversation(config);
    const std::uint64_t chunk_bytes =
        conversation.status().kv_bytes / 30 / ((kContextTokens + 5 + 255) / 256);
    // One compressor, one writer.
    const std::uint64_t rise_max = 2 * 2 * chunk_bytes + kSegmentBytes;
    std::uint64_t highest_rise = 0;
    PssWatch watch;
    for (const double percent : {10.0, 35.0, 50.0, 100.0, 100.0}) {
      CAPTURE(percent);
      conversation.restore();
      const std::uint64_t model_cached = cached_bytes(model_path());
      const std::uint64_t swap_cached = cached_bytes_unlinked(config.memory.swap_directory);
      (void)watch.take_highest();
      const std::uint64_t before = pss_bytes();
      (void)ask(conversation.runtime(), evict_percent(percent));
      const std::uint64_t highest = watch.take_highest();
      highest_rise = std::max(highest_rise, highest > before ? highest - before : 0);
      CHECK(highest <= before + rise_max);
      CHECK(cached_bytes(model_path()) <= model_cached + kMiB / 4);
      CHECK(cached_bytes_unlinked(config.memory.swap_directory) <= swap_cached + kMiB / 4);
    }
    std::printf(
        "%s, huge pages %d: PSS rose by at most %.2f MiB during an eviction (allowed %.2f), %llu "
        "samples\n",
        variant.codec, variant.huge_pages ? 1 : 0, static_cast<double>(highest_rise) / kMiB,
        static_cast<double>(rise_max) / kMiB, static_cast<unsigned long long>(watch.samples()));
  }
}

TEST_CASE("an eviction of everything leaves no unit and no swap, whatever came before") {
  const std::vector<std::vector<double>> before{{}, {50}, {10, 10, 10}, {90}, {35, 35}, {1, 100}};
  for (const Variant& variant : kVariants) {
    CAPTURE(variant.codec, variant.huge_pages);
    Conversation conversation(config_of(variant));
    for (const auto& amounts : before) {
      conversation.restore();
      conversation.go_on();
      for (const double percent : amounts) (void)conversation.evict(evict_percent(percent));
      (void)conversation.evict(evict_percent(100));
      const StatusReport status = conversation.status();
      CAPTURE(amounts.size());
      CHECK(status.resident.units == 0);
      CHECK(status.compressed.units == 0);
      CHECK(status.memory_swap_bytes == 0);
      CHECK(status.remaining_percent == 0);
      const std::uint64_t pss = pss_bytes();
      std::printf(
          "%s, huge pages %d, %zu evictions before: footprint %.1f MiB, PSS %.1f MiB of which "
          "scratch %.1f; after load it was %.1f; reported floor %.1f\n",
          variant.codec, variant.huge_pages ? 1 : 0, amounts.size(),
          static_cast<double>(status.footprint_bytes) / kMiB, static_cast<double>(pss) / kMiB,
          static_cast<double>(status.scratch_bytes) / kMiB,
          static_cast<double>(conversation.loaded()) / kMiB,
          static_cast<double>(status.floor_bytes) / kMiB);
    }
  }
}
