#include <algorithm>

#include "codec/none.h"
#include "codec/registry.h"
#include "support/catch.h"

using namespace mzcache;
using namespace mzcache::codec;

namespace {

ErrorCode code_of(std::string_view name) {
  const auto codec = make_codec(name);
  return codec.ok() ? ErrorCode::kOk : codec.error().code;
}

}  // namespace

TEST_CASE("codecs are made by name") {
  CHECK(make_codec("q8").value()->name() == "q8");
  CHECK_FALSE(make_codec("q8").value()->lossless());
  CHECK(make_codec("none").value()->name() == "none");
  CHECK(code_of("q8:4") == ErrorCode::kBadArgument);
  CHECK(code_of("q8:") == ErrorCode::kBadArgument);
  for (const char* name : {"q4", "entropy", "entropy:near", "entropy:small", "zstd", "lz4",
                           "split-zstd", "packed", "cachegen", "entropy:free"}) {
    const auto codec = make_codec(name);
    REQUIRE(codec.ok());
    CHECK((*codec)->name() == name);
  }
  CHECK(code_of("entropy:far") == ErrorCode::kBadArgument);
  for (const char* unknown : {"", ":", "Q8", "q88", "gzip:9"}) {
    CHECK(code_of(unknown) == ErrorCode::kBadArgument);
  }
  CHECK(make_codec("gzip").error().context.find("none ") != std::string::npos);
}

TEST_CASE("an embedder adds a codec, and its parameter arrives") {
  std::string seen;
  const CodecFactory factory =
      [&seen](std::string_view parameter) -> Result<std::shared_ptr<const actors::KvCodec>> {
    seen = parameter;
    return std::shared_ptr<const actors::KvCodec>(std::make_shared<NoneCodec>());
  };
  REQUIRE(register_codec("mine", factory).ok());
  CHECK(code_of("mine:fast") == ErrorCode::kOk);
  CHECK(seen == "fast");
  CHECK(code_of("mine") == ErrorCode::kOk);
  CHECK(seen.empty());
  for (const char* taken : {"mine", "q8", "none", "entropy", "", "Mine", "a:b", "a b"}) {
    CHECK(register_codec(taken, factory).error().code == ErrorCode::kBadArgument);
  }
  CHECK(register_codec("empty", nullptr).error().code == ErrorCode::kBadArgument);
  const auto names = codec_names();
  CHECK(std::find(names.begin(), names.end(), "mine") != names.end());
  CHECK(std::is_sorted(names.begin(), names.end()));
}
