// Memory is really there, and really gone: what the process is charged for follows every call.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "gpu/unit_memory.h"
#include "gpu/unit_memory_pages.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::gpu;
using actors::UnitId;

namespace {

// Sum of a field of /proc/self/smaps over the mappings inside [begin, begin + bytes).
std::uint64_t mapped_kib(const std::byte* begin, std::uint64_t bytes, const std::string& field) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  std::uint64_t sum = 0;
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  while (std::getline(smaps, line)) {
    unsigned long long start = 0;
    unsigned long long end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &start, &end) == 2) {
      inside = start >= from && end <= from + bytes;
    } else if (inside && line.rfind(field + ":", 0) == 0) {
      sum += std::strtoull(line.c_str() + field.size() + 1, nullptr, 10);
    }
  }
  return sum;
}

// The anonymous part of the process's PSS. The whole would also move when some other process that
// shares the driver's libraries starts or ends.
std::uint64_t anonymous_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string line;
  while (std::getline(rollup, line)) {
    if (line.rfind("Pss_Anon:", 0) == 0) {
      return std::strtoull(line.c_str() + std::strlen("Pss_Anon:"), nullptr, 10) * 1024;
    }
  }
  return 0;
}

std::unique_ptr<UnitMemory> mapped_memory(Device& device, std::uint64_t chunk_bytes,
                                          UnitMemory::Options options = {}) {
  auto memory =
      UnitMemory::create(device, {{4096 * 1500, 4096 * 3}, 4096 * 900, chunk_bytes}, options);
  REQUIRE(memory);
  return std::move(*memory);
}

// What else the process does in between (a test framework's strings, a driver's threads; under a
// sanitizer the memory it keeps of what was freed, and its shadow).
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kNoise = 8 * 1024 * 1024;
#else
constexpr std::int64_t kNoise = 256 * 1024;
#endif

}  // namespace

TEST_CASE("a reservation holds no memory until it is populated") {
  const std::uint64_t before = anonymous_bytes();
  REQUIRE(before > 0);
  CHECK(process_pss_bytes() > before);  // with the libraries' share
  auto reservation = PageReservation::create(std::uint64_t{16} << 30);
  REQUIRE(reservation);
  CHECK(reinterpret_cast<std::uintptr_t>(reservation->data()) % kHugePageBytes == 0);
  CHECK(reservation->bytes() == std::uint64_t{16} << 30);
  CHECK(anonymous_bytes() < before + kNoise);
  CHECK(PageReservation::create(~std::uint64_t{0}).error().code == ErrorCode::kBadArgument);
  CHECK(PageReservation::create(std::uint64_t{1} << 60).error().code == ErrorCode::kNoMemory);
}

TEST_CASE("whole huge pages inside a run are huge, its edges small") {
  auto reservation = PageReservation::create(6 * kHugePageBytes);
  REQUIRE(reservation);
  std::byte* begin = reservation->data();
  const bool huge = GENERATE(true, false);
  CAPTURE(huge);
  // Half a page, three pages, three quarters of one.
  std::byte* from = begin + kHugePageBytes / 2;
  const std::uint64_t bytes = kHugePageBytes * 17 / 4;
  REQUIRE(populate_pages(from, bytes, huge, {}));
  const std::uint64_t whole = reservation->bytes();
  CHECK(mapped_kib(begin, whole, "Rss") * 1024 == bytes);
  const std::uint64_t huge_kib = mapped_kib(begin, whole, "AnonHugePages");
  if (!huge) CHECK(huge_kib == 0);
  if (huge && huge_kib != 3 * 2048) {
    // The system may be without transparent huge pages, or out of them; never may it have more.
    WARN("only " << huge_kib << " KiB came as huge pages");
    CHECK(huge_kib < 3 * 2048);
  }
  // Part of a huge page leaves: exactly that part, and the rest keeps its bytes.
  std::memset(from, 9, bytes);
  release_pages(begin + kHugePageBytes + 4096 * 5, 4096 * 300);
  CHECK(mapped_kib(begin, whole, "Rss") * 1024 == bytes - 4096 * 300);
  CHECK(begin[kHugePageBytes + 4096 * 5 - 1] == std::byte{9});
  CHECK(begin[kHugePageBytes + 4096 * 305] == std::byte{9});
  REQUIRE(populate_pages(begin + kHugePageBytes + 4096 * 5, 4096 * 300, huge, {}));
  CHECK(begin[kHugePageBytes + 4096 * 5] == std::byte{0});
  CHECK(begin[kHugePageBytes + 4096 * 304] == std::byte{0});
  release_pages(begin, whole);
  CHECK(mapped_kib(begin, whole, "Rss") == 0);
}

TEST_CASE("huge pages come where small ones were before, filled and given back in halves") {
  auto reservation = PageReservation::create(4 * kHugePageBytes);
  REQUIRE(reservation);
  std::byte* begin = reservation->data();
  REQUIRE(populate_pages(begin, kHugePageBytes, true, {}));
  const std::uint64_t at_first = mapped_kib(begin, reservation->bytes(), "AnonHugePages");
  release_pages(begin, kHugePageBytes);
  constexpr std::uint64_t kHalf = kHugePageBytes / 2;
  for (std::uint64_t at = 0; at < reservation->bytes(); at += kHalf) {
    REQUIRE(populate_pages(begin + at, kHalf, true, {}));
  }
  for (std::uint64_t at = 0; at < reservation->bytes(); at += kHalf)
    release_pages(begin + at, kHalf);
  CHECK(mapped_kib(begin, reservation->bytes(), "Rss") == 0);
  REQUIRE(populate_pages(begin, reservation->bytes(), true, {}));
  // As many as the system has for a fresh range.
  CHECK(mapped_kib(begin, reservation->bytes(), "AnonHugePages") == 4 * at_first);
  CHECK(mapped_kib(begin, reservation->bytes(), "Rss") * 1024 == reservation->bytes());
}

TEST_CASE("staging of whole huge pages is huge") {
  std::byte* staging = map_pages(kHugePageBytes, true);
  REQUIRE(staging != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(staging) % kHugePageBytes == 0);
  CHECK(mapped_kib(staging, kHugePageBytes, "Rss") * 1024 == kHugePageBytes);
  staging[kHugePageBytes - 1] = std::byte{1};
  unmap_pages(staging, kHugePageBytes);
  std::byte* small = map_pages(4096 * 3, true);
  REQUIRE(small != nullptr);
  small[4096 * 3 - 1] = std::byte{1};
  unmap_pages(small, 4096 * 3);
}

TEST_CASE("PSS follows populate and release of chunks in any order") {
  auto device = Device::open({});
  REQUIRE(device);
  if ((*device)->info().mode != MemoryMode::kHostMapping) return;
  const std::uint64_t chunk = GENERATE(4096 * 90, 4096 * 256);
  const bool huge = GENERATE(true, false);
  const unsigned seed = std::random_device{}();
  CAPTURE(chunk, huge, seed);
  std::mt19937 random(seed);
  UnitMemory::Options options;
  options.huge_pages = huge;
  auto memory = mapped_memory(**device, chunk, options);
  constexpr std::uint32_t kChunks = 60;
  REQUIRE(memory->open_context(0, kChunks));
  std::set<std::uint32_t> resident;
  (void)anonymous_bytes();
  const auto floor = static_cast<std::int64_t>(anonymous_bytes());
  for (int step = 0; step < 40; ++step) {
    const auto first = static_cast<std::uint32_t>(random() % kChunks);
    const auto count = static_cast<std::uint32_t>(1 + random() % (kChunks - first));
    std::vector<UnitId> run;
    const bool populate = resident.count(first) == 0;
    for (std::uint32_t i = first; i < first + count; ++i) {
      if ((resident.count(i) == 0) != populate) break;
      run.push_back(actors::kv_unit(0, 1, i));
    }
    if (populate) {
      REQUIRE(memory->populate(run));
      for (const UnitId unit : run) resident.insert(unit.chunk);
    } else {
      if (random() % 2 == 0) std::reverse(run.begin(), run.end());
      memory->release(run);
      for (const UnitId unit : run) resident.erase(unit.chunk);
    }
    const auto held = static_cast<std::int64_t>(anonymous_bytes()) - floor;
    CAPTURE(step, first, run.size(), populate);
    REQUIRE(std::abs(held - static_cast<std::int64_t>(resident.size() * chunk)) < kNoise);
  }
}

TEST_CASE("weights, head and segments leave entirely") {
  auto device = Device::open({});
  REQUIRE(device);
  if ((*device)->info().mode != MemoryMode::kHostMapping) return;
  auto memory = mapped_memory(**device, 4096);
  const auto pss = [] { return static_cast<std::int64_t>(anonymous_bytes()); };
  (void)pss();
  const std::int64_t floor = pss();
  for (const UnitId unit :
       {actors::weights_unit(0), actors::weights_unit(1), actors::head_unit(2)}) {
    const auto bytes = static_cast<std::int64_t>(memory->bytes(unit).size());
    CAPTURE(bytes);
    REQUIRE(memory->populate({&unit, 1}));
    CHECK(std::abs(pss() - floor - bytes) < kNoise);
    memory->release({&unit, 1});
    CHECK(pss() < floor + kNoise);
  }
  auto range = memory->reserve_swap(3 * actors::kSegmentBytes);
  REQUIRE(range);
  CHECK(range->size() == 3 * actors::kSegmentBytes);
  CHECK(reinterpret_cast<std::uintptr_t>(range->data()) % kHugePageBytes == 0);
  CHECK(pss() < floor + kNoise);
  REQUIRE(memory->populate_segment(1));
  CHECK(pss() >= floor + static_cast<std::int64_t>(actors::kSegmentBytes) - kNoise);
  memory->release_segment(1);
  CHECK(pss() < floor + kNoise);
}

TEST_CASE("at least 98 % of what a large release reports is gone") {
  auto device = Device::open({});
  REQUIRE(device);
  if ((*device)->info().mode != MemoryMode::kHostMapping) return;
  const std::uint64_t chunk = std::uint64_t{1} << 20;
  auto memory = mapped_memory(**device, chunk);
  REQUIRE(memory->open_context(0, 129));
  std::vector<UnitId> run;
  for (std::uint32_t i = 0; i < 129; ++i) run.push_back(actors::kv_unit(0, 0, i));
  REQUIRE(memory->populate(run));
  for (const std::size_t released : {std::size_t{1}, std::size_t{64}, std::size_t{64}}) {
    const auto before = anonymous_bytes();
    memory->release(std::span(run).last(released));
    run.resize(run.size() - released);
    const auto fallen = static_cast<double>(before) - static_cast<double>(anonymous_bytes());
    CHECK(fallen >= 0.98 * static_cast<double>(released * chunk) - (released == 1 ? 65536 : 0));
  }
}

TEST_CASE("a failed populate of pages and segments holds no memory") {
  auto device = Device::open({});
  REQUIRE(device);
  if ((*device)->info().mode != MemoryMode::kHostMapping) return;
  const int fail_at = GENERATE(1, 2, 3);
  CAPTURE(fail_at);
  int pieces = 0;
  UnitMemory::Options options;
  options.inject_failure = [&](std::uint64_t) { return ++pieces == fail_at ? ENOMEM : 0; };
  auto memory = mapped_memory(**device, 4096 * 100, options);
  REQUIRE(memory->open_context(0, 40));
  std::vector<UnitId> run;
  for (std::uint32_t i = 1; i < 40; ++i) run.push_back(actors::kv_unit(0, 0, i));
  (void)anonymous_bytes();
  const auto floor = static_cast<std::int64_t>(anonymous_bytes());
  auto failed = memory->populate(run);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().code == ErrorCode::kNoMemory);
  CHECK(failed.error().native == ENOMEM);
  CHECK(static_cast<std::int64_t>(anonymous_bytes()) < floor + kNoise);
  pieces = fail_at - 1;
  REQUIRE(memory->reserve_swap(actors::kSegmentBytes));
  CHECK(memory->populate_segment(0).error().code == ErrorCode::kNoMemory);
  CHECK(static_cast<std::int64_t>(anonymous_bytes()) < floor + kNoise);
  REQUIRE(memory->populate(run));
}
