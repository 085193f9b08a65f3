#include "engine/profile.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "actors/checksum.h"

namespace mzcache::engine {
namespace {

using Json = nlohmann::ordered_json;

// Another meaning of any figure is another version; files of older ones are measured again.
constexpr int kVersion = 2;
constexpr double kRateMax = 1e15;
constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint64_t hash(std::string_view text) {
  return actors::checksum(std::as_bytes(std::span(text.data(), text.size())));
}

Json to_json(const StageRates& rates) {
  return {{"model_read_bytes_per_s", rates.model_read},
          {"swap_read_bytes_per_s", rates.swap_read},
          {"decode_bytes_per_s", rates.decode},
          {"allocate_bytes_per_s", rates.allocate},
          {"storage_decode_bytes_per_s", rates.storage_decode}};
}

Json to_json(const Profile& profile) {
  Json prefill = Json::object();
  for (const auto& [model, rate] : profile.prefill) prefill[model] = rate;
  return {{"key", profile.key},
          {"alone", to_json(profile.alone)},
          {"busy", to_json(profile.busy)},
          {"decode_cpu_s_per_byte", profile.decode_cpu_s_per_byte},
          {"storage_decode_cpu_s_per_byte", profile.storage_decode_cpu_s_per_byte},
          {"write_bytes_per_s", profile.write_bytes_per_s},
          {"encode_bytes_per_s", profile.encode_bytes_per_s},
          {"measure_s", profile.measure_s},
          {"prefill_tokens_per_s", prefill}};
}

// Reads numbers out of an object and remembers the first that is missing or impossible.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}
  double number(const char* name, double min = 0) {
    const auto found = object_.find(name);
    const bool usable = found != object_.end() && found->is_number();
    const double value = usable ? found->get<double>() : -1;
    if (bad_.empty() && !(value >= min && value <= kRateMax)) bad_ = name;
    return value;
  }
  // 0 where there is none: files of before it was measured.
  double number_if_there(const char* name) { return object_.contains(name) ? number(name) : 0; }
  [[nodiscard]] const std::string& bad() const { return bad_; }

 private:
  const Json& object_;
  std::string bad_;
};

Error bad(std::string what) { return {ErrorCode::kBadFormat, 0, "read profile", std::move(what)}; }

std::string read_rates(const Json& object, const char* name, bool needed, StageRates& rates) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_object()) return name;
  Reader reader(*found);
  const double min = needed ? 1 : 0;
  rates = {reader.number("model_read_bytes_per_s"), reader.number("swap_read_bytes_per_s"),
           reader.number("decode_bytes_per_s", min), reader.number("allocate_bytes_per_s", min),
           reader.number_if_there("storage_decode_bytes_per_s")};
  if (needed && reader.bad().empty() && read_rate(rates) < min) {
    return std::string(name) + ".model_read_bytes_per_s";
  }
  return reader.bad().empty() ? std::string() : std::string(name) + "." + reader.bad();
}

Result<Profile> profile_of(const Json& object) {
  Profile profile;
  const auto key = object.find("key");
  if (key == object.end() || !key->is_string()) return bad("key");
  profile.key = key->get<std::string>();
  for (const std::string& wrong : {read_rates(object, "alone", true, profile.alone),
                                   read_rates(object, "busy", false, profile.busy)}) {
    if (!wrong.empty()) return bad(wrong);
  }
  Reader reader(object);
  profile.decode_cpu_s_per_byte = reader.number("decode_cpu_s_per_byte");
  profile.storage_decode_cpu_s_per_byte = reader.number_if_there("storage_decode_cpu_s_per_byte");
  profile.write_bytes_per_s = reader.number("write_bytes_per_s");
  profile.encode_bytes_per_s = reader.number("encode_bytes_per_s");
  profile.measure_s = reader.number("measure_s");
  if (!reader.bad().empty()) return bad(reader.bad());
  const auto prefill = object.find("prefill_tokens_per_s");
  if (prefill == object.end() || !prefill->is_object()) return bad("prefill_tokens_per_s");
  for (const auto& [model, rate] : prefill->items()) {
    if (!rate.is_number() || !(rate.get<double>() > 0)) return bad("prefill_tokens_per_s." + model);
    profile.prefill[model] = rate.get<double>();
  }
  return profile;
}

}  // namespace

RestoreProfile restore_profile(const Profile& profile) {
  RestoreProfile out;
  const auto [model, swap] = std::pair(profile.alone.model_read, profile.alone.swap_read);
  if (model > 0 || swap > 0) {
    out.model_read_bytes_per_s = model > 0 ? model : swap;
    out.swap_read_bytes_per_s = swap > 0 ? swap : model;
  }
  if (profile.alone.decode > 0) out.decode_bytes_per_s = profile.alone.decode;
  if (profile.alone.allocate > 0) out.allocate_bytes_per_s = profile.alone.allocate;
  out.decode_cpu_s_per_byte = profile.decode_cpu_s_per_byte;
  out.storage_decode_bytes_per_s = profile.alone.storage_decode;
  out.storage_decode_cpu_s_per_byte = profile.storage_decode_cpu_s_per_byte;
  return out;
}

double read_rate(const StageRates& rates) {
  if (rates.model_read <= 0 || rates.swap_read <= 0) {
    return std::max(rates.model_read, rates.swap_read);
  }
  return 2 / (1 / rates.model_read + 1 / rates.swap_read);
}

void learn_from(const RateHistory& history, Profile& profile) {
  const auto take = [&](RestoreStage stage, double StageRates::* rate) {
    if (history.given(stage)) return;
    profile.alone.*rate = history.rates(DeviceLoad::kAlone).*rate;
    profile.busy.*rate = history.rates(DeviceLoad::kBusy).*rate;
  };
  take(RestoreStage::kReadModel, &StageRates::model_read);
  take(RestoreStage::kReadSwap, &StageRates::swap_read);
  take(RestoreStage::kDecode, &StageRates::decode);
  take(RestoreStage::kAllocate, &StageRates::allocate);
  take(RestoreStage::kDecodeStored, &StageRates::storage_decode);
}

std::string profile_text(const Profile& profile) {
  const Json content = to_json(profile);
  const Json file{
      {"version", kVersion}, {"checksum", hex(hash(content.dump()))}, {"profile", content}};
  return file.dump(2) + "\n";
}

Result<Profile> parse_profile(std::string_view text) {
  const Json file = Json::parse(text, nullptr, false);
  if (!file.is_object()) return bad("not a JSON object");
  const auto version = file.find("version");
  if (version == file.end() || !version->is_number_integer() || version->get<int>() != kVersion) {
    return bad("version, want " + std::to_string(kVersion));
  }
  const auto content = file.find("profile");
  const auto checksum = file.find("checksum");
  if (content == file.end() || !content->is_object()) return bad("profile");
  if (checksum == file.end() || !checksum->is_string() ||
      checksum->get<std::string>() != hex(hash(content->dump()))) {
    return bad("checksum");
  }
  return profile_of(*content);
}

std::string profile_directory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe)
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/mzcache/profiles";
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/mzcache/profiles";
  return {};
}

std::string profile_path(const std::string& directory, std::string_view key) {
  return directory + "/" + hex(hash(key)) + ".json";
}

Result<Profile> load_profile(const std::string& path, std::string_view key) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) {
    return Error{ErrorCode::kNotFound, ENOENT, "read profile", path};
  }
  std::ifstream stream(path, std::ios::binary);
  std::string text(kFileBytesMax, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad() || text.size() == kFileBytesMax) return bad(path + ": cannot be read");
  Result<Profile> profile = parse_profile(text);
  if (!profile) {
    profile.error().context = path + ": " + profile.error().context;
    return profile;
  }
  if (profile->key != key) return bad(path + ": measured on something else (" + profile->key + ")");
  return profile;
}

Result<void> save_profile(const std::string& path, const Profile& profile) {
  namespace fs = std::filesystem;
  const auto fail = [&](int native) {
    return Error{ErrorCode::kIo, native, "write profile", path};
  };
  std::error_code failed;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) fs::create_directories(parent, failed);
  if (failed) return fail(failed.value());
  // A name that no other process, and no other runtime of this one, takes.
  static std::atomic<std::uint64_t> files{0};
  const std::string temporary =
      path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(++files);
  errno = 0;
  {
    std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
    stream << profile_text(profile);
    stream.flush();
    if (!stream) {
      const int native = errno;
      fs::remove(temporary, failed);
      return fail(native);
    }
  }
  fs::rename(temporary, path, failed);
  if (failed) {
    const int native = failed.value();
    fs::remove(temporary, failed);
    return fail(native);
  }
  return {};
}

}  // namespace mzcache::engine
