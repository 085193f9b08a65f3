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

constexpr std::uint32_t kContextTokens = 1540;
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

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / kMiB; }

// What an Evict of so much must have done to the PSS.
std::uint64_t least_drop(std::uint64_t freed) {
  return std::min(freed / 100 * 95, freed > 2 * kMiB ? freed - 2 * kMiB : 0);
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
  [[nodiscard]] std::uint32_t layers() const { return model_.info().layers; }
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

void check_amounts(Conversation& conversation) {
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

// While an eviction runs the PSS does not rise by more than what is in the workers' hands, and no
// page cache grows.
void check_rise(Conversation& conversation, const Config& config, const char* name) {
  const std::uint64_t chunks = kContextTokens / 256 + 1;
  const std::uint64_t chunk_bytes = conversation.status().kv_bytes / conversation.layers() / chunks;
  const std::uint64_t rise_max = 2 * 2 * chunk_bytes + kSegmentBytes;  // one compressor, one writer
  std::uint64_t highest_rise = 0;
  PssWatch watch;
  for (const double percent : {10.0, 35.0, 50.0, 100.0}) {
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
  std::printf("%s: PSS rose by at most %.2f MiB during an eviction (allowed %.2f)\n", name,
              mib(highest_rise), mib(rise_max));
}

// Whatever came before, an eviction of everything leaves no unit and no byte of swap in memory, and
// the process is as small as the first time.
void check_floor(Conversation& conversation, const char* name) {
  const std::vector<std::vector<double>> before{{}, {50}, {10, 10, 10}, {90}, {35, 35}, {1, 100}};
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    CAPTURE(i);
    conversation.restore();
    conversation.go_on();
    for (const double percent : before[i]) (void)conversation.evict(evict_percent(percent));
    (void)conversation.evict(evict_percent(100));
    const StatusReport status = conversation.status();
    CHECK(status.resident.units == 0);
    CHECK(status.compressed.units == 0);
    CHECK(status.memory_swap_bytes == 0);
    CHECK(status.remaining_percent == 0);
    const std::uint64_t pss = pss_bytes();
    if (i == 0) first = pss;
    std::printf(
        "%s: nothing resident, PSS %.1f MiB (after load %.1f, scratch %.1f, floor as "
        "reported %.1f)\n",
        name, mib(pss), mib(conversation.loaded()), mib(status.scratch_bytes),
        mib(status.floor_bytes));
    CHECK(pss <= first + status.footprint_bytes / 100 * 3 + 4 * kMiB);
  }
}

}  // namespace

TEST_CASE("memory is really gone after an eviction and never grows during one") {
  for (const Variant& variant : kVariants) {
    CAPTURE(variant.codec, variant.huge_pages);
    const std::string name =
        std::string(variant.codec) + (variant.huge_pages ? ", huge pages" : ", small pages");
    const Config config = config_of(variant);
    Conversation conversation(config);
    check_amounts(conversation);
    check_rise(conversation, config, name.c_str());
    check_floor(conversation, name.c_str());
  }
}
