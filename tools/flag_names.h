// Which flag gave what the library refused.
#pragma once

#include <string>

#include "command_line.h"

namespace mzcache::tools {

// The flag of `command` that set `field` (see Error::field), as it is shown to people; "" where the
// value did not come from the command line.
[[nodiscard]] std::string flag_that_set(const CommandLine& command, const std::string& field);

}  // namespace mzcache::tools
