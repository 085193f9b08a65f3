#include "codec/cachegen.h"
#include "codec/codecs_under_test.h"
#include "codec/entropy.h"
#include "codec/none.h"
#include "codec/packed.h"
#include "codec/q4.h"
#include "codec/q8.h"

namespace mzcache::codec::test {

std::vector<std::string> codecs_under_test() {
  return {"none", "q8", "q4", "entropy", "entropy:near", "packed", "cachegen"};
}

std::shared_ptr<const actors::KvCodec> codec_under_test(const std::string& name) {
  using Preset = EntropyCodec::Preset;
  if (name == "q8") return std::make_shared<Q8Codec>();
  if (name == "q4") return std::make_shared<Q4Codec>();
  if (name == "entropy") return std::make_shared<EntropyCodec>(Preset::kDefault);
  if (name == "entropy:near") return std::make_shared<EntropyCodec>(Preset::kNear);
  if (name == "cachegen") return std::make_shared<CacheGenCodec>();
  if (name == "packed") return std::make_shared<PackedCodec>();
  return std::make_shared<NoneCodec>();
}

}  // namespace mzcache::codec::test
