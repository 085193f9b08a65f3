// Buffer leases, checksum.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "actors/buffer_pool.h"
#include "actors/checksum.h"
#include "support/catch.h"

namespace mzcache::actors {
namespace {

TEST_CASE("buffers: aligned, bounded, reused, counted") {
  StagingMemory heap;
  BufferPool pool(heap, 20'480, 3);
  StagingLease a = pool.try_acquire(10'000);
  StagingLease b = pool.try_acquire(4096);
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->size() == 12'288);  // whole blocks
  CHECK(reinterpret_cast<std::uintptr_t>(a->data()) % kBlockAlignment == 0);
  CHECK(b->data() == a->data() + 12'288);
  CHECK(pool.held_bytes() == 20'480);
  StagingLease c = pool.try_acquire(30'000);  // larger than a slab
  REQUIRE(c);
  CHECK(c->size() == 32'768);
  CHECK(pool.held_bytes() == 20'480 + 32'768);
  CHECK_FALSE(pool.try_acquire(1));
  CHECK(pool.outstanding() == 3);
  std::byte* const first = a->data();
  StagingLease shared = a;
  a.reset();
  CHECK(pool.outstanding() == 3);
  shared.reset();
  CHECK(pool.outstanding() == 2);
  StagingLease again = pool.try_acquire(8192);  // where the first one was
  REQUIRE(again);
  CHECK(again->data() == first);
  again.reset();
  b.reset();
  again = pool.try_acquire(20'000);  // all of the first slab
  REQUIRE(again);
  CHECK(again->data() == first);
  CHECK(pool.held_bytes() == 20'480 + 32'768);
  again.reset();
  pool.trim();
  CHECK(pool.held_bytes() == 32'768);
  c.reset();
  CHECK(pool.outstanding() == 0);
  CHECK(pool.held_bytes() == 0);  // it came back after the trim
  a = pool.try_acquire(1);
  REQUIRE(a);
  a.reset();
  CHECK(pool.held_bytes() == 20'480);  // kept again
}

TEST_CASE("buffers: a lease may outlive its pool") {
  StagingMemory heap;
  StagingLease lease;
  {
    BufferPool pool(heap, 4096, 1);
    lease = pool.try_acquire(4096);
    REQUIRE(lease);
  }
  std::fill(lease->begin(), lease->end(), std::byte{7});
  CHECK((*lease)[4095] == std::byte{7});
}

TEST_CASE("buffers: threads take and return; no two hold the same") {
  constexpr int kThreads = 4;
  StagingMemory heap;
  BufferPool pool(heap, 8192, kThreads - 1);
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 5000; ++i) {
        const StagingLease lease = pool.try_acquire(4096);
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
  CHECK(pool.held_bytes() <= (kThreads - 1) * 8192);
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
