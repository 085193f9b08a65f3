// Codecs by name, as the command line and the configuration write them: "NAME" or "NAME:parameter".
// All functions are thread-safe; codecs are shared and stateless.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/ports.h"
#include "mzcache/errors.h"

namespace mzcache::codec {

// Makes a codec from what follows the colon ("" where there is none). Called without locks held.
using CodecFactory =
    std::function<Result<std::shared_ptr<const actors::KvCodec>>(std::string_view parameter)>;

// kBadArgument for an unknown name (the message lists the known ones) or a bad parameter.
[[nodiscard]] Result<std::shared_ptr<const actors::KvCodec>> make_codec(std::string_view name);

// Adds an embedder's codec. Names are lower-case letters, digits and '-', at most 32; kBadArgument
// where the name is malformed, taken, or one of the library's own.
[[nodiscard]] Result<void> register_codec(std::string_view name, CodecFactory factory);

// Names make_codec can build, sorted.
[[nodiscard]] std::vector<std::string> codec_names();

}  // namespace mzcache::codec
