// Gate, credits, buffer leases, checksum.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "actors/buffer_pool.h"
#include "actors/checksum.h"
#include "actors/credits.h"
#include "actors/gate.h"
#include "support/catch.h"

namespace mzcache::actors {
namespace {

TEST_CASE("gate: nothing enters once closed; the last to leave is told") {
  Gate gate;
  CHECK(gate.enter());
  CHECK(gate.enter());
  CHECK_FALSE(gate.leave());
  CHECK_FALSE(gate.close());  // one is still inside
  CHECK_FALSE(gate.enter());
  CHECK(gate.closed());
  CHECK_FALSE(gate.closed_and_empty());
  CHECK(gate.leave());
  CHECK(gate.closed_and_empty());
  CHECK_FALSE(gate.close());  // again: no news
  Gate empty;
  CHECK(empty.close());
  CHECK(empty.closed_and_empty());
}

TEST_CASE("gate: passes leave on their own") {
  Gate gate;
  {
    GatePass pass(gate);
    CHECK(pass);
    GatePass moved = std::move(pass);
    CHECK(moved);
    CHECK(gate.inside() == 1);
  }
  CHECK(gate.inside() == 0);
  gate.close();
  CHECK_FALSE(GatePass(gate));
  CHECK(gate.closed_and_empty());
}

TEST_CASE("gate: closing waits for every operation, and exactly one is the last") {
  constexpr int kThreads = 4;
  for (int round = 0; round < 50; ++round) {
    Gate gate;
    std::atomic<int> inside{0};
    std::atomic<int> last{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        while (gate.enter()) {
          ++inside;
          --inside;
          if (gate.leave()) ++last;
        }
      });
    }
    if (round % 2 == 0) std::this_thread::yield();
    const bool was_empty = gate.close();
    gate.close_and_wait();
    CHECK(inside.load() == 0);
    for (auto& thread : threads) thread.join();
    CHECK(last.load() + (was_empty ? 1 : 0) == 1);
  }
}

TEST_CASE("credits: bounded, given back, and one too large goes alone") {
  Credits credits(100);
  CHECK(credits.try_take(60));
  CHECK(credits.try_take(40));
  CHECK_FALSE(credits.try_take(1));
  CHECK(credits.available() == 0);
  credits.give(60);
  CHECK_FALSE(credits.try_take(61));
  CHECK_FALSE(credits.try_take(500));
  CHECK_FALSE(credits.try_take(~std::uint64_t{0}));
  credits.give(40);
  CHECK(credits.try_take(500));
  CHECK(credits.in_flight() == 500);
  CHECK(credits.available() == 0);
  CHECK_FALSE(credits.try_take(1));
  credits.give(500);
  CHECK(credits.in_flight() == 0);
}

TEST_CASE("buffers: aligned, bounded, reused, counted") {
  StagingMemory heap;
  BufferPool pool(heap, 10'000, 2);
  StagingLease a = pool.try_acquire();
  StagingLease b = pool.try_acquire();
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->size() == 12'288);  // whole blocks
  CHECK(reinterpret_cast<std::uintptr_t>(a->data()) % kBlockAlignment == 0);
  CHECK(a->data() != b->data());
  CHECK_FALSE(pool.try_acquire());
  CHECK(pool.outstanding() == 2);
  std::byte* const first = a->data();
  StagingLease shared = a;
  a.reset();
  CHECK(pool.outstanding() == 2);
  shared.reset();
  CHECK(pool.outstanding() == 1);
  CHECK(pool.held_bytes() == 24'576);
  StagingLease again = pool.try_acquire();
  REQUIRE(again);
  CHECK(again->data() == first);
  again.reset();
  pool.trim();
  CHECK(pool.held_bytes() == 12'288);
  b.reset();
  CHECK(pool.outstanding() == 0);
}

TEST_CASE("buffers: a lease may outlive its pool") {
  StagingMemory heap;
  StagingLease lease;
  {
    BufferPool pool(heap, 4096, 1);
    lease = pool.try_acquire();
    REQUIRE(lease);
  }
  std::fill(lease->begin(), lease->end(), std::byte{7});
  CHECK((*lease)[4095] == std::byte{7});
}

TEST_CASE("buffers: threads take and return; no two hold the same") {
  constexpr int kThreads = 4;
  StagingMemory heap;
  BufferPool pool(heap, 4096, kThreads - 1);
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 5000; ++i) {
        const StagingLease lease = pool.try_acquire();
        if (!lease) continue;
        const auto mark = static_cast<std::byte>(thread + 1);
        lease->front() = mark;
        lease->back() = mark;
        if (lease->front() != mark || lease->back() != mark) ++clashes;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(clashes.load() == 0);
  CHECK(pool.outstanding() == 0);
  CHECK(pool.held_bytes() <= (kThreads - 1) * 4096);
}

TEST_CASE("checksum: XXH3-64") {
  // Published test values: the empty input, and seed 0 throughout.
  CHECK(checksum({}) == 0x2D06800538D394C2ULL);
  std::array<std::byte, 1024> bytes{};
  const std::uint64_t zeros = checksum(bytes);
  for (const std::size_t at : {std::size_t{0}, std::size_t{511}, bytes.size() - 1}) {
    bytes[at] = std::byte{1};
    CHECK(checksum(bytes) != zeros);
    bytes[at] = std::byte{0};
  }
  CHECK(checksum(bytes) == zeros);
}

}  // namespace
}  // namespace mzcache::actors
