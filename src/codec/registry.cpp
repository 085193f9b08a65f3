#include "codec/registry.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "codec/cachegen.h"
#include "codec/entropy.h"
#include "codec/lossless.h"
#include "codec/none.h"
#include "codec/packed.h"
#include "codec/q4.h"
#include "codec/q8.h"

namespace mzcache::codec {
namespace {

using CodecPointer = std::shared_ptr<const actors::KvCodec>;

constexpr std::size_t kNameMax = 32;

Error bad_codec(std::string_view name, std::string context) {
  return {ErrorCode::kBadArgument, 0, "codec \"" + std::string(name) + "\"", std::move(context)};
}

template <class Codec, class... Arguments>
CodecFactory without_parameter(std::string_view name, Arguments... arguments) {
  return [name, arguments...](std::string_view parameter) -> Result<CodecPointer> {
    if (!parameter.empty()) {
      return bad_codec(name, "takes no parameter, \"" + std::string(parameter) + "\" was given");
    }
    return CodecPointer(std::make_shared<Codec>(arguments...));
  };
}

Result<CodecPointer> make_entropy(std::string_view parameter) {
  using Preset = EntropyCodec::Preset;
  if (parameter.empty()) return CodecPointer(std::make_shared<EntropyCodec>(Preset::kDefault));
  if (parameter == "near") return CodecPointer(std::make_shared<EntropyCodec>(Preset::kNear));
  if (parameter == "small") return CodecPointer(std::make_shared<EntropyCodec>(Preset::kSmall));
  if (parameter == "free") return CodecPointer(std::make_shared<EntropyCodec>(Preset::kFree));
  return bad_codec("entropy:" + std::string(parameter),
                   "allowed: entropy, entropy:near, entropy:small, entropy:free");
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, CodecFactory, std::less<>> factories{
      {"cachegen", without_parameter<CacheGenCodec>("cachegen")},
      {"entropy", make_entropy},
      {"packed", without_parameter<PackedCodec>("packed")},
      {"none", without_parameter<NoneCodec>("none")},
      {"q8", without_parameter<Q8Codec>("q8")},
      {"q4", without_parameter<Q4Codec>("q4")},
      {"zstd", without_parameter<LosslessCodec>("zstd", LosslessCodec::Method::kZstd)},
      {"lz4", without_parameter<LosslessCodec>("lz4", LosslessCodec::Method::kLz4)},
      {"split-zstd",
       without_parameter<LosslessCodec>("split-zstd", LosslessCodec::Method::kSplitZstd)},
  };
};

Registry& registry() {
  static Registry instance;
  return instance;
}

bool well_formed(std::string_view name) {
  return !name.empty() && name.size() <= kNameMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

}  // namespace

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  Registry& known = registry();
  const std::scoped_lock lock(known.mutex);
  names.reserve(known.factories.size());
  for (const auto& entry : known.factories) names.push_back(entry.first);
  return names;
}

Result<CodecPointer> make_codec(std::string_view name) {
  const std::size_t colon = name.find(':');
  const std::string_view base = name.substr(0, colon);
  const std::string_view parameter =
      colon == std::string_view::npos ? std::string_view{} : name.substr(colon + 1);
  if (colon != std::string_view::npos && parameter.empty()) {
    return bad_codec(name, "nothing follows the colon");
  }
  CodecFactory factory;
  {
    Registry& known = registry();
    const std::scoped_lock lock(known.mutex);
    if (const auto found = known.factories.find(base); found != known.factories.end()) {
      factory = found->second;
    }
  }
  if (factory) return factory(parameter);
  std::string listing = "known codecs:";
  for (const std::string& known_name : codec_names()) listing += ' ' + known_name;
  return bad_codec(name, std::move(listing));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the factory is moved into the registry
Result<void> register_codec(std::string_view name, CodecFactory factory) {
  if (!well_formed(name)) {
    return bad_codec(name, "a name is 1 to 32 lower-case letters, digits and '-'");
  }
  if (!factory) return bad_codec(name, "the factory is empty");
  Registry& known = registry();
  const std::scoped_lock lock(known.mutex);
  if (!known.factories.try_emplace(std::string(name), std::move(factory)).second) {
    return bad_codec(name, "the name is taken");
  }
  return {};
}

}  // namespace mzcache::codec
