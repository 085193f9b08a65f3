// How long the device stood still although the stage it waited for could have been at work.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/timeline.h"

namespace mzcache::tools {

// Of a trace of one first token. Each wait of the device ends with the arrival of some unit; the
// stage it waits for is the one this unit is at:
// - not yet with the reader: an allocator; idle while none is at work, unless the reader has as
//   many requests in flight as the device takes (then the window is full, and that is what it is).
// - with the reader: idle while requests in flight are below `depth` and reads are left.
// - with a decoder: idle while none is at work.
// - arrived, and the device not told yet: idle.
[[nodiscard]] actors::Nanoseconds idle_time(const std::vector<actors::SpanRecord>& spans,
                                            std::size_t depth);

}  // namespace mzcache::tools
