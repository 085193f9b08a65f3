// libFuzzer's entry function for the codec that the build names.
#include "codec/registry.h"
#include "fuzz/fuzz_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto codec = mzcache::codec::make_codec(MZCACHE_FUZZ_CODEC).value();
  mzcache::codec::test::fuzz_codec(*codec, data, size);
  return 0;
}
