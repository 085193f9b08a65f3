#include "codec/codecs_under_test.h"
#include "codec/registry.h"

namespace mzcache::codec::test {

std::vector<std::string> codecs_under_test() {
  return {"none",          "q8",           "q4",      "zstd",
          "lz4",           "split-zstd",   "entropy", "entropy:near",
          "entropy:small", "entropy:free", "packed",  "cachegen"};
}

std::shared_ptr<const actors::KvCodec> codec_under_test(const std::string& name) {
  return make_codec(name).value();
}

}  // namespace mzcache::codec::test
