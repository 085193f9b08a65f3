#include "io/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "io/io_error.h"
#include "io/page_cache.h"
#include "io/thread_device.h"
#include "io/uring_device.h"

namespace mzcache::io {
namespace {

using actors::FileId;

constexpr std::size_t kDepthMax = 1024;
constexpr std::uint64_t kBlockMax = std::uint64_t{1} << 30;

DirectOptions direct_options(const StorageOptions& options) {
  return {options.direct, options.notice, options.faults};
}

SwapOptions swap_options(const StorageOptions& options) {
  return {direct_options(options), options.swap_extent_bytes, options.swap_bytes_max};
}

Error bad_config(const char* key, std::string what) {
  return {ErrorCode::kBadConfig, 0, key, std::move(what)};
}

Result<void> check_options(const StorageOptions& options) {
  if (options.depth < 1 || options.depth > kDepthMax) {
    return bad_config("storage.depth",
                      fmt::format("{} is not within 1 … {}", options.depth, kDepthMax));
  }
  if (options.block == 0 || options.block % actors::kBlockAlignment != 0 ||
      options.block > kBlockMax) {
    return bad_config("storage.block",
                      fmt::format("{} is not a multiple of {} up to {}", options.block,
                                  actors::kBlockAlignment, kBlockMax));
  }
  if (options.engine != "io_uring" && options.engine != "threads") {
    return bad_config("storage.engine",
                      fmt::format("\"{}\" is neither io_uring nor threads", options.engine));
  }
  return {};
}

}  // namespace

StorageFiles::StorageFiles(std::optional<DirectFile> model, const StorageOptions& options)
    : model_(std::move(model)),
      swap_(options.swap_directory, swap_options(options)),
      notice_(options.notice) {}

Result<std::shared_ptr<StorageFiles>> StorageFiles::open(
    const std::string& model_path, const StorageOptions& options,
    const std::optional<FileIdentity>& expected) {
  std::optional<DirectFile> model;
  if (!model_path.empty()) {
    auto opened = DirectFile::open(model_path, direct_options(options));
    if (!opened) return std::move(opened).error();
    model.emplace(std::move(opened).value());
    if (expected && *expected != model->identity()) {
      return Error{ErrorCode::kBadFormat, 0, "open",
                   fmt::format("{}: the file changed after its metadata was read (size {}, was {})",
                               model_path, model->identity().bytes, expected->bytes)};
    }
  }
  return std::shared_ptr<StorageFiles>(new StorageFiles(std::move(model), options));
}

OpenFile StorageFiles::file(FileId id) const noexcept {
  const DirectFile* file = id == FileId::kSwap ? swap_.file() : nullptr;
  if (id == FileId::kModel && model_) file = &*model_;
  return file == nullptr ? OpenFile{} : OpenFile{file->fd(), file->direct()};
}

std::string StorageFiles::name(FileId id) const {
  if (id == FileId::kSwap) return swap_.name();
  return model_ ? model_->name() : "model file";
}

FileIdentity StorageFiles::model_identity() const noexcept {
  return model_ ? model_->identity() : FileIdentity{};
}

void StorageFiles::notice_no_ring(const std::string& why) {
  if (ring_noticed_.exchange(true) || !notice_) return;
  notice_(
      fmt::format("io_uring is not available here ({}); reading and writing with threads", why));
}

Result<Transfer> prepare_transfer(const StorageFiles& files, const actors::BlockRequest& request) {
  const bool write = request.operation == actors::BlockRequest::Operation::kWrite;
  const char* operation = write ? "write" : "read";
  const auto refuse = [&](std::string why) {
    return Error{ErrorCode::kBadArgument, 0, operation,
                 files.name(request.file) + ": " + std::move(why)};
  };
  if (write && request.file != FileId::kSwap) return refuse("only the swap file is written");
  if (request.buffer.empty()) return refuse("the buffer is empty");
  const OpenFile file = files.file(request.file);
  if (file.fd < 0) return refuse("not open");
  // The kernel's own limit is just below 2 GiB and not a multiple of the alignment.
  const std::uint64_t most = file.direct ? kBlockMax : kBufferedStepBytes;
  return Transfer{file, std::min<std::uint64_t>(request.buffer.size(), most)};
}

Result<std::unique_ptr<actors::BlockDevice>> open_storage(std::shared_ptr<StorageFiles> files,
                                                          const StorageOptions& options) {
  if (auto checked = check_options(options); !checked) return std::move(checked.error());
  if (options.engine == "io_uring") {
    auto ring = UringDevice::create(files, options);
    if (ring) return std::unique_ptr<actors::BlockDevice>(std::move(ring).value());
    files->notice_no_ring(std::generic_category().message(static_cast<int>(ring.error().native)));
  }
  return std::unique_ptr<actors::BlockDevice>(
      std::make_unique<ThreadDevice>(std::move(files), options));
}

}  // namespace mzcache::io
