// Real storage behind the BlockDevice port: the model file and the swap file, through io_uring or,
// where that is not allowed, through a small pool of threads.
//
//   auto files = StorageFiles::open("model.gguf", options);
//   auto reader = open_storage(*files, options);   // one device per actor,
//   auto writer = open_storage(*files, options);   // all on the same open files
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/ports.h"
#include "io/direct_file.h"
#include "io/swap_file.h"
#include "mzcache/errors.h"

namespace mzcache::io {

struct StorageOptions {
  std::uint64_t block = std::uint64_t{1} << 20;  // storage.block: a multiple of 4 KiB
  std::size_t depth = 8;                         // storage.depth: 1 … 1024
  bool direct = true;                            // storage.direct
  std::string engine = "io_uring";               // storage.engine: io_uring | threads
  std::uint64_t limit_bytes_per_s = 0;           // storage.limit, per device, reads; 0: none
  std::string swap_directory;                    // memory.swap_directory
  std::uint64_t swap_extent_bytes = std::uint64_t{16} << 20;
  std::uint64_t swap_bytes_max = 0;  // the swap file never grows beyond; 0: no limit but the disk's
  Notice notice;
  IoFaults faults;  // tests
};

// What a device needs to transfer.
struct OpenFile {
  int fd = -1;  // -1: not there (yet)
  bool direct = false;
};

// The open files, shared by every device on them. Thread-safe.
class StorageFiles {
 public:
  // model_path may be empty: swap only. Where `expected` is given the model must still be that very
  // file (its metadata was read before): kBadFormat names what changed. It is not checked again.
  [[nodiscard]] static Result<std::shared_ptr<StorageFiles>> open(
      const std::string& model_path, const StorageOptions& options,
      const std::optional<FileIdentity>& expected = std::nullopt);

  [[nodiscard]] OpenFile file(actors::FileId id) const noexcept;
  [[nodiscard]] std::string name(actors::FileId id) const;
  [[nodiscard]] SwapFile& swap() noexcept { return swap_; }
  [[nodiscard]] const SwapFile& swap() const noexcept { return swap_; }
  // Zeros where there is no model.
  [[nodiscard]] FileIdentity model_identity() const noexcept;
  // Tells people that the ring is not to be had; the first device's word counts for all.
  void notice_no_ring(const std::string& why);

 private:
  StorageFiles(std::optional<DirectFile> model, const StorageOptions& options);

  std::optional<DirectFile> model_;
  SwapFile swap_;
  Notice notice_;
  std::atomic<bool> ring_noticed_{false};
};

// A request as a device starts it: checked, with its file looked up and its length bounded.
struct Transfer {
  OpenFile file;
  std::uint64_t bytes = 0;
};
// kBadArgument for what no device can do: writing the model, a file that is not there, no bytes.
[[nodiscard]] Result<Transfer> prepare_transfer(const StorageFiles& files,
                                                const actors::BlockRequest& request);

// A device with its own queue. It may be made and destroyed by any thread; between them one thread
// owns it, except for wake(). Its destructor returns once no transfer is under way any more;
// requests that were not started by then are forgotten. kBadConfig for options out of range.
[[nodiscard]] Result<std::unique_ptr<actors::BlockDevice>> open_storage(
    std::shared_ptr<StorageFiles> files, const StorageOptions& options);

}  // namespace mzcache::io
