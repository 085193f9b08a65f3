// storage.limit under a clock of the test's own.
#include "io/throttle.h"

#include "support/catch.h"

using mzcache::io::Throttle;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace

TEST_CASE("Reads are paid for one after another", "[io]") {
  Throttle throttle(400 * kMiB);
  const Throttle::Time start{100s};
  Throttle::Time last = start;
  for (int i = 0; i < 400; ++i) last = throttle.pay(kMiB, start);
  // 400 MiB asked for at once have a second to go.
  CHECK(std::chrono::abs(last - (start + 1s)) < 1us);
}

TEST_CASE("Idle time earns no credit", "[io]") {
  Throttle throttle(kMiB);
  const Throttle::Time start{100s};
  CHECK(throttle.pay(kMiB, start) == start + 1s);
  CHECK(throttle.pay(kMiB, start + 60s) == start + 61s);
  CHECK(throttle.pay(kMiB / 2, start + 60s) == start + 61500ms);
}

TEST_CASE("Without a limit reads start at once", "[io]") {
  Throttle throttle(0);
  CHECK_FALSE(throttle.limits());
  const Throttle::Time start{100s};
  CHECK(throttle.pay(kMiB, start) == start);
  CHECK(throttle.pay(1000 * kMiB, start) == start);
}
