// Whatever was said, evicted and restored before: an eviction of everything leaves no unit and no
// byte of swap in memory, and the process as small as it was before its first conversation.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "mzcache/runtime.h"
#include "support/catch.h"
#include "support/model_path.h"
#include "system/memory_probe.h"
#include "system/system_messages.h"

using namespace mzcache;
using namespace mzcache::test;

namespace {

constexpr Token kTokens = 49000;

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / kMiB; }

class Process {
 public:
  explicit Process(const Config& config)
      : runtime_(config), model_(runtime_.load(model_path())), session_(model_.open_session()) {
    // Device and program are ready, one token was generated, everything evicted, nothing said.
    say(3, 1);
    evict(100);
    (void)ask(runtime_, Reset{session_});
    floor_ = pss_bytes();
  }
  void say(std::size_t prompt, std::uint32_t answer) { say_in(session_, prompt, answer); }
  void say_in(Session session, std::size_t prompt, std::uint32_t answer) {
    (void)ask(runtime_, generate(session, some_tokens(prompt, kTokens, ++seed_), answer));
  }
  // As a reader of a long text would: no answer, one row of logits.
  void read(std::size_t tokens) {
    (void)ask(runtime_, evaluate(session_, some_tokens(tokens, kTokens, ++seed_)));
  }
  void evict(double percent) { (void)ask(runtime_, evict_percent(percent)); }
  void restore(std::uint64_t bytes = 0) {
    Restore message;
    message.bytes = bytes;
    (void)ask(runtime_, message);
  }
  void reset() { (void)ask(runtime_, Reset{session_}); }
  Session another() { return model_.open_session(); }

  void check_floor(const char* name) {
    evict(100);
    const StatusReport status = ask(runtime_, Status{});
    const std::uint64_t pss = pss_bytes();
    std::printf("%-44s PSS %6.1f MiB, floor %.1f, scratch %.1f\n", name, mib(pss), mib(floor_),
                mib(status.scratch_bytes));
    INFO(name);
    CHECK(status.resident.units == 0);
    CHECK(status.compressed.units == 0);
    CHECK(status.memory_swap_bytes == 0);
    CHECK(pss <= floor_ + status.footprint_bytes / 100 * 3 + 4 * kMiB);
  }

 private:
  Runtime runtime_;
  Model model_;
  Session session_;
  std::uint64_t seed_ = 0;
  std::uint64_t floor_ = 0;
};

struct Course {
  const char* name;
  std::function<void(Process&)> run;
};

const std::vector<Course>& courses() {
  static const std::vector<Course> all{
      {"a question", [](Process& p) { p.say(20, 4); }},
      {"a long text", [](Process& p) { p.read(1300); }},
      {"everything out and in again", [](Process& p) { p.restore(); }},
      {"encoded to the file, and decoded from there",
       [](Process& p) {
         p.restore();
         p.evict(95);
         p.restore();
       }},
      {"bit by bit, some of it restored",
       [](Process& p) {
         p.restore();
         for (int i = 0; i < 5; ++i) p.evict(12);
         p.restore(30 * kMiB);
         p.evict(20);
       }},
      {"a restore that a question overtakes",
       [](Process& p) {
         p.evict(60);
         p.say(5, 8);
         p.evict(35);
         p.restore();
       }},
      {"two conversations",
       [](Process& p) {
         const Session other = p.another();
         p.say_in(other, 400, 3);
         p.evict(50);
         p.say(4, 3);
         p.say_in(other, 4, 3);
       }},
      {"a new beginning",
       [](Process& p) {
         p.reset();
         p.say(600, 3);
         p.evict(70);
         p.restore();
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("an eviction of everything ends at the floor, whatever came before") {
  for (const char* codec : {"q8", "none"}) {
    for (const std::uint64_t keep : {std::uint64_t{0}, 16 * kMiB}) {
      Config config;
      config.memory.codec = codec;
      config.memory.keep_compressed = keep;
      CAPTURE(codec, keep);
      std::printf("codec %s, %.0f MiB of compressed forms kept\n", codec, mib(keep));
      Process process(config);
      for (const Course& course : courses()) {
        course.run(process);
        process.check_floor(course.name);
      }
    }
  }
}
