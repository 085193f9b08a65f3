// Both engines, direct and buffered, through the port alone.
#include <atomic>
#include <iostream>
#include <random>
#include <thread>

#include "io/page_cache.h"
#include "io/storage.h"
#include "io_fixture.h"
#include "support/catch.h"

namespace mzcache::io::test {
namespace {

using actors::BlockDevice;
using actors::BlockRequest;
using actors::FileId;
using Operation = actors::BlockRequest::Operation;

constexpr std::uint64_t kBlock = actors::kBlockAlignment;
constexpr std::uint64_t kModelBytes = 5 * (std::uint64_t{1} << 20) + 1234;

struct World {
  explicit World(StorageOptions wanted) : options(std::move(wanted)) {
    options.swap_directory = folder.path();
    options.notice = notices.sink();
    files = StorageFiles::open(write_pattern_file(folder, kModelBytes), options).value();
    device = open_storage(files, options).value();
  }
  // Device and thread of the owner are often not the same thread: a fresh one on the same files.
  std::unique_ptr<BlockDevice> another() { return open_storage(files, options).value(); }

  Folder folder;
  Notices notices;
  StorageOptions options;
  std::shared_ptr<StorageFiles> files;
  std::unique_ptr<BlockDevice> device;
};

StorageOptions engine_options() {
  StorageOptions options;
  options.engine = GENERATE("io_uring", "threads");
  return options;
}

void check_engine(const World& world) {
  // Where the machine forbids the ring both runs test threads, and say so.
  for (const std::string& line : world.notices.lines()) WARN(line);
}

TEST_CASE("The model reads back at any aligned range, short at its end", "[io]") {
  StorageOptions options = engine_options();
  options.direct = GENERATE(true, false);
  World world(options);
  check_engine(world);
  CHECK(is_direct(world.files->file(FileId::kModel).fd) ==
        world.files->file(FileId::kModel).direct);

  std::random_device source;
  const std::uint64_t seed = source();
  std::cout << "seed " << seed << '\n';
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  struct Read {
    std::uint64_t offset;
    Buffer buffer;
  };
  for (int round = 0; round < 20; ++round) {
    std::vector<Read> reads;
    const std::size_t count = 1 + random() % world.device->depth();
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t offset = random() % (kModelBytes / kBlock + 3) * kBlock;
      reads.push_back({offset, Buffer((1 + random() % 256) * kBlock)});
      REQUIRE(
          world.device
              ->submit({Operation::kRead, FileId::kModel, offset, reads.back().buffer.span(), i})
              .ok());
      if (random() % 3 == 0) world.device->flush();
    }
    world.device->flush();
    std::vector<bool> seen(count);
    for (const auto& completion : collect(*world.device, count)) {
      REQUIRE(completion.tag < count);
      CHECK_FALSE(seen[completion.tag]);
      seen[completion.tag] = true;
      const Read& read = reads[completion.tag];
      const std::uint64_t there = kModelBytes > read.offset ? kModelBytes - read.offset : 0;
      const std::uint64_t expected = std::min<std::uint64_t>(read.buffer.span().size(), there);
      REQUIRE(completion.result == static_cast<std::int64_t>(expected));
      CHECK(holds_pattern(read.buffer.span().first(expected), read.offset));
    }
  }
  CHECK(left_in_cache(world.files->file(FileId::kModel).fd) == 0);
}

TEST_CASE("What is written to the swap file reads back on another device", "[io]") {
  StorageOptions options = engine_options();
  options.direct = GENERATE(true, false);
  World world(options);
  const auto reader = world.another();
  constexpr std::size_t kRecords = 24;
  constexpr std::uint64_t kRecordMax = 64 * kBlock;
  REQUIRE(world.device->grow(FileId::kSwap, kRecords * kRecordMax).ok());
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < kRecords; ++i) {
    const Buffer buffer((1 + random() % 64) * kBlock);
    sizes.push_back(buffer.span().size());
    for (std::size_t b = 0; b < sizes[i]; ++b) buffer.span()[b] = pattern_at(b * kRecords + i);
    REQUIRE(write_at(*world.device, i * kRecordMax, buffer.span()) ==
            static_cast<std::int64_t>(sizes[i]));
  }
  for (std::size_t i = 0; i < kRecords; ++i) {
    const Buffer buffer(sizes[i]);
    REQUIRE(read_at(*reader, FileId::kSwap, i * kRecordMax, buffer.span()) ==
            static_cast<std::int64_t>(sizes[i]));
    bool same = true;
    for (std::size_t b = 0; b < sizes[i]; ++b) {
      same = same && buffer.span()[b] == pattern_at(b * kRecords + i);
    }
    CHECK(same);
  }
  CHECK(left_in_cache(world.files->file(FileId::kSwap).fd) == 0);
}

TEST_CASE("Refused direct I/O: one notice per file, and no page cache grows", "[io]") {
  StorageOptions options = engine_options();
  options.faults.direct_refused_at_first = true;
  World world(options);
  CHECK(world.notices.count("model.gguf") == 1);
  REQUIRE(world.device->grow(FileId::kSwap, kModelBytes).ok());
  CHECK(world.notices.count("swap file") == 1);
  const int model = world.files->file(FileId::kModel).fd;
  const int swap = world.files->file(FileId::kSwap).fd;
  const Buffer buffer(1 << 20);
  for (std::uint64_t offset = 0; offset < kModelBytes; offset += buffer.span().size()) {
    REQUIRE(read_at(*world.device, FileId::kModel, offset, buffer.span()) > 0);
    REQUIRE(write_at(*world.device, offset / kBlock * kBlock, buffer.span()) == 1 << 20);
  }
  CHECK(left_in_cache(model) == 0);
  CHECK(left_in_cache(swap) == 0);
  // The check sees what stays: a plain read leaves pages.
  REQUIRE(::pread(model, buffer.span().data(), 1 << 20, 0) == 1 << 20);
  CHECK(cached_pages(model) > 0);
  // Longer than a buffered step: short, for the caller to ask again.
  const Buffer large(kBufferedStepBytes + kBlock);
  CHECK(read_at(*world.device, FileId::kModel, 0, large.span()) ==
        static_cast<std::int64_t>(kBufferedStepBytes));
  CHECK(world.notices.count("direct I/O") == 2);
}

TEST_CASE("Requests no device can do are refused", "[io]") {
  World world(engine_options());
  const Buffer buffer(world.device->depth() * kBlock);
  const auto refused = [&](const BlockRequest& request) {
    const auto submitted = world.device->submit(request);
    return !submitted.ok() && submitted.error().code == ErrorCode::kBadArgument;
  };
  CHECK(refused({Operation::kWrite, FileId::kModel, 0, buffer.span(), 0}));
  CHECK(refused({Operation::kRead, FileId::kSwap, 0, buffer.span(), 0}));  // not there yet
  CHECK(refused({Operation::kRead, FileId::kModel, 0, {}, 0}));
  CHECK(world.device->grow(FileId::kModel, 1).error().code == ErrorCode::kBadArgument);
  for (std::size_t i = 0; i < world.device->depth(); ++i) {
    const std::span<std::byte> part = buffer.span().subspan(i * kBlock, kBlock);
    REQUIRE(world.device->submit({Operation::kRead, FileId::kModel, 0, part, i}).ok());
  }
  CHECK(world.device->submit({Operation::kRead, FileId::kModel, 0, buffer.span().first(kBlock), 99})
            .error()
            .code == ErrorCode::kInternal);
  world.device->flush();
  CHECK(collect(*world.device, world.device->depth()).size() == world.device->depth());
}

TEST_CASE("A failing request reports its errno and the device goes on", "[io]") {
  World world(engine_options());
  const Buffer buffer(2 * kBlock);
  if (world.files->file(FileId::kModel).direct) {
    // Nothing accepts one byte off for direct I/O.
    CHECK(read_at(*world.device, FileId::kModel, 0, buffer.span().subspan(1, kBlock)) == -EINVAL);
  }
  const std::span<std::byte> nowhere(reinterpret_cast<std::byte*>(kBlock), kBlock);
  CHECK(read_at(*world.device, FileId::kModel, 0, nowhere) == -EFAULT);
  CHECK(read_at(*world.device, FileId::kModel, kBlock, buffer.span()) == 2 * kBlock);
  CHECK(holds_pattern(buffer.span(), kBlock));
}

TEST_CASE("wake() before or during wait() ends it, without a completion", "[io]") {
  World world(engine_options());
  world.device->wake();
  world.device->wake();
  world.device->wait();  // both wakes in one
  std::array<actors::BlockCompletion, 1> none{};
  CHECK(world.device->reap(none) == 0);

  // A wake that reap() meets first is kept for wait().
  world.device->wake();
  CHECK(world.device->reap(none) == 0);
  world.device->wait();

  std::thread other([&] { world.device->wake(); });
  world.device->wait();
  other.join();

  // With reads in flight, and after wakes, completions still arrive.
  const Buffer buffer(kBlock);
  CHECK(read_at(*world.device, FileId::kModel, 0, buffer.span()) == kBlock);
}

// A mailbox as the actors use it: post, then wake. A lost wake-up hangs this test.
TEST_CASE("No wake-up is lost between several threads and reads", "[io]") {
  World world(engine_options());
  constexpr int kThreads = 3;
  constexpr int kPosts = 4000;
  std::atomic<int> posted{0};
  std::atomic<int> taken{0};
  std::vector<std::thread> producers;
  producers.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        posted.fetch_add(1, std::memory_order_release);
        world.device->wake();
        // Now and then everybody sleeps before the next, so that wait() really blocks.
        if (i % 16 == t) {
          while (taken.load(std::memory_order_acquire) < posted.load()) std::this_thread::yield();
        }
      }
    });
  }
  const Buffer buffer(16 * kBlock);
  std::array<actors::BlockCompletion, 4> done{};
  std::mt19937 random(20260101);
  bool reading = false;
  std::size_t reads = 0;
  while (taken.load() < kThreads * kPosts) {
    // Half of the waits have no read in flight: only wake() can end them.
    if (!reading && random() % 2 == 0) {
      REQUIRE(world.device->submit({Operation::kRead, FileId::kModel, 0, buffer.span(), 5}).ok());
      world.device->flush();
      reading = true;
    }
    world.device->wait();
    const std::size_t got = world.device->reap(done);
    reads += got;
    reading = reading && got == 0;
    taken.store(posted.load(std::memory_order_acquire), std::memory_order_release);
  }
  for (std::thread& producer : producers) producer.join();
  if (reading) (void)collect(*world.device, 1);
  CHECK(reads > 0);
}

TEST_CASE("Destruction waits for the transfers under way", "[io]") {
  StorageOptions options = engine_options();
  options.direct = GENERATE(true, false);
  World world(options);
  constexpr std::size_t kBytes = 512 * 1024;
  for (int round = 0; round < 10; ++round) {
    auto device = world.another();
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < device->depth(); ++i) buffers.emplace_back(kBytes);
    const auto submit_all = [&] {
      for (std::size_t i = 0; i < device->depth(); ++i) {
        REQUIRE(device->submit({Operation::kRead, FileId::kModel, i * kBytes, buffers[i].span(), i})
                    .ok());
        if (i == device->depth() - 3) device->flush();  // two are never started
      }
    };
    const bool by_another_thread = round % 2 == 1;
    if (by_another_thread) {
      std::thread owner([&] {
        device->wake();
        device->wait();
        submit_all();
      });
      owner.join();
    } else {
      submit_all();
    }
    device.reset();
    // From here on nothing may write to the buffers.
    for (const Buffer& buffer : buffers) std::memset(buffer.span().data(), 0x55, kBytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (const Buffer& buffer : buffers) {
      REQUIRE(std::all_of(buffer.span().begin(), buffer.span().end(),
                          [](std::byte b) { return b == std::byte{0x55}; }));
    }
  }
}

TEST_CASE("A device may be made, owned and destroyed by three threads", "[io]") {
  World world(engine_options());
  const Buffer buffer(kBlock);
  std::int64_t result = 0;
  std::thread owner(
      [&] { result = read_at(*world.device, FileId::kModel, kBlock, buffer.span()); });
  owner.join();
  CHECK(result == kBlock);
  std::thread last([&] { world.device.reset(); });
  last.join();
}

TEST_CASE("The limit holds reads back, wakes and destruction go on", "[io]") {
  StorageOptions options = engine_options();
  options.limit_bytes_per_s = 16 << 20;
  World world(options);
  const Buffer buffer(1 << 20);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < 4; ++i) {
    REQUIRE(world.device
                ->submit({Operation::kRead, FileId::kModel, 0, buffer.span().first(256 << 10), i})
                .ok());
  }
  world.device->flush();
  const auto done = collect(*world.device, 4);
  // 1 MiB at 16 MiB/s: a lower bound that no scheduling can break.
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::microseconds(62'000));
  for (std::size_t i = 0; i < done.size(); ++i) CHECK(done[i].result == 256 << 10);

  // An hour's worth of waiting requests ends neither wake-ups nor the device.
  StorageOptions slow = world.options;
  slow.limit_bytes_per_s = 300;
  auto device = open_storage(world.files, slow).value();
  REQUIRE(device->submit({Operation::kRead, FileId::kModel, 0, buffer.span(), 1}).ok());
  device->flush();
  device->wake();
  device->wait();
  std::array<actors::BlockCompletion, 1> none{};
  CHECK(device->reap(none) == 0);
  device.reset();
}

}  // namespace
}  // namespace mzcache::io::test
