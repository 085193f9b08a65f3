#include "engine/wiring_profile.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <fstream>
#include <string>
#include <thread>

#include "engine/wiring_measure.h"

namespace mzcache::engine {
namespace {

// Its first line; "" where there is no such file.
std::string first_line(const char* path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string processor() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("model name") || line.starts_with("Hardware")) {
      return line.substr(line.find(':') + 1);
    }
  }
  return {};
}

std::string machine() {
  utsname name = {};
  static_cast<void>(::uname(&name));
  return fmt::format("{} {}{} {} cores", first_line("/etc/machine-id"), name.machine, processor(),
                     std::thread::hardware_concurrency());
}

std::string file_system(const std::string& path) {
  struct stat status = {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return "none";
  return fmt::format("{:x}", static_cast<std::uint64_t>(status.st_dev));
}

// "q8", or "q8, for storage entropy" where chunks are encoded for storage by another.
std::string codec_names(const Config::Memory& memory) {
  if (!decodes_stored_apart(memory)) return memory.codec;
  return memory.codec + ", for storage " + memory.storage_codec;
}

std::string placed(const PlacementConfig& config) {
  std::string ids;
  for (const std::uint32_t id : config.core_ids) ids += fmt::format(",{}", id);
  return fmt::format("{}{}x{}", config.cores, ids, config.workers);
}

// "1.4 GB/s".
std::string rate_text(double bytes_per_s) { return fmt::format("{:.2f} GB/s", bytes_per_s / 1e9); }

void keep(ObtainedProfile& obtained, const NoticeSink& notice) {
  if (obtained.file.empty()) return;
  const Result<void> saved = save_profile(obtained.file, obtained.profile);
  if (saved) return;
  if (notice) notice(saved.error().message() + "; measured again next time");
  obtained.file.clear();
}

}  // namespace

std::string profile_key(const Config& config, const gpu::DeviceInfo& device,
                        const std::string& model_file) {
  const auto& placement = config.placement;
  const auto& storage = config.storage;
  return fmt::format(
      "machine {}; model on {}; swap {} on {}; codec {}; reader {}, decompressor {}, allocator {}; "
      "storage {} {} x {} direct {} limit {}; huge pages {}; device {}, kernels {}, memory {}",
      machine(), file_system(model_file), config.memory.swap_directory,
      file_system(config.memory.swap_directory), codec_names(config.memory),
      placed(placement.storage_reader), placed(placement.decompressor), placed(placement.allocator),
      storage.engine, storage.block, storage.depth, storage.direct, storage.limit_bytes_per_s,
      config.memory.huge_pages, device.name, device.kernels, gpu::memory_mode_name(device.mode));
}

Result<ObtainedProfile> obtain_profile(const Config& config, gpu::Device& device,
                                       const actors::ModelDescription* model, bool refresh,
                                       const NoticeSink& notice) {
  const std::string key =
      profile_key(config, device.info(), model == nullptr ? std::string() : model->file);
  ObtainedProfile obtained;
  obtained.file = config.profile.file;
  if (const std::string directory = profile_directory();
      obtained.file.empty() && !directory.empty()) {
    obtained.file = profile_path(directory, key);
  }
  if (!refresh && !obtained.file.empty()) {
    Result<Profile> kept = load_profile(obtained.file, key);
    if (kept) {
      obtained.profile = std::move(*kept);
      obtained.cached = true;
      return obtained;
    }
    if (kept.error().code != ErrorCode::kNotFound && notice) {
      notice(kept.error().message() + "; measuring again");
    }
  }
  Result<Profile> measured = measure_rates(config, device, model);
  if (!measured) return measured.error();
  obtained.profile = std::move(*measured);
  obtained.profile.key = key;
  keep(obtained, notice);
  if (notice) {
    notice(fmt::format("measuring storage and decoder once: {:.1f} s (reads {}, decodes {})",
                       obtained.profile.measure_s, rate_text(read_rate(obtained.profile.alone)),
                       rate_text(obtained.profile.alone.decode)));
  }
  return obtained;
}

bool decodes_stored_apart(const Config::Memory& memory) {
  return memory.storage_codec != "none" && memory.storage_codec != memory.codec;
}

bool profile_given(const Config& config) {
  const StageRates given = given_rates(config);
  return given.model_read > 0 && given.decode > 0 && given.allocate > 0;
}

StageRates given_rates(const Config& config) {
  return {config.profile.read_bytes_per_s, config.profile.read_bytes_per_s,
          config.profile.decode_bytes_per_s, config.profile.allocate_bytes_per_s,
          config.profile.storage_decode_bytes_per_s};
}

std::string prefill_key(const actors::ModelDescription& model) {
  return fmt::format("{:016x}", model.identity);
}

RestoreProfile planner_profile(const Config& config, Profile profile,
                               const actors::ModelDescription* model) {
  const StageRates given = given_rates(config);
  if (given.model_read > 0) profile.alone.model_read = given.model_read;
  if (given.swap_read > 0) profile.alone.swap_read = given.swap_read;
  if (given.decode > 0) profile.alone.decode = given.decode;
  if (given.allocate > 0) profile.alone.allocate = given.allocate;
  if (given.storage_decode > 0) profile.alone.storage_decode = given.storage_decode;
  RestoreProfile planned = restore_profile(profile);
  planned.prefill_tokens_per_s = config.profile.prefill_tokens_per_s;
  if (planned.prefill_tokens_per_s <= 0 && model != nullptr) {
    const auto known = profile.prefill.find(prefill_key(*model));
    if (known != profile.prefill.end()) planned.prefill_tokens_per_s = known->second;
  }
  return planned;
}

}  // namespace mzcache::engine
