// Which codecs the tests of codecs go through: all of the library's, or where its compressors are
// not there (tools/test-aarch64.sh) those that need none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/ports.h"

namespace mzcache::codec::test {

[[nodiscard]] std::vector<std::string> codecs_under_test();
[[nodiscard]] std::shared_ptr<const actors::KvCodec> codec_under_test(const std::string& name);

}  // namespace mzcache::codec::test
