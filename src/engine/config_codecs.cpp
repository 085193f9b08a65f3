#include "engine/config_codecs.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <utility>

namespace mzcache::engine {
namespace {

// What src/codec/registry.cpp makes; tests/engine/test_config.cpp goes through them.
constexpr std::array<std::string_view, 12> kNames{
    "q8",           "none",   "q4",   "entropy", "entropy:near", "entropy:small",
    "entropy:free", "packed", "zstd", "lz4",     "split-zstd",   "cachegen"};

struct Added {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;
};
Added& added() {
  static Added instance;
  return instance;
}

}  // namespace

bool is_codec_name(std::string_view name) {
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  const std::scoped_lock lock(added().mutex);
  return added().names.contains(name.substr(0, name.find(':')));
}

void allow_codec_name(std::string name) {
  const std::scoped_lock lock(added().mutex);
  added().names.insert(std::move(name));
}

}  // namespace mzcache::engine
