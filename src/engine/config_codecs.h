// Which codec names the configuration takes: the library's own, and those the application added.
#pragma once

#include <string>
#include <string_view>

namespace mzcache::engine {

// "NAME" or "NAME:parameter".
[[nodiscard]] bool is_codec_name(std::string_view name);
// From then on `name`, with any parameter, is one. Thread-safe.
void allow_codec_name(std::string name);

}  // namespace mzcache::engine
