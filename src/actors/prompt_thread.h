// Threads that run as soon as they wake, on cores that compute threads keep busy: in their turn
// they would come a time slice later, 3 ms, and the storage idles for as long.
#pragma once

#include <cstdint>

namespace mzcache::actors {

enum class Promptness : std::uint8_t {
  kRealTime,  // before every ordinary thread
  kRaised,    // a negative niceness
  kOrdinary,  // at most a short slice
};
[[nodiscard]] const char* promptness_name(Promptness promptness) noexcept;

// Asks the system for the calling thread. `real_time`: for threads that sleep nearly always. All of
// it are wishes, and what was granted is returned: real time and niceness need the right to them
// (RLIMIT_RTPRIO, RLIMIT_NICE, CAP_SYS_NICE), a slice of one's own Linux 6.12.
[[nodiscard]] Promptness run_promptly(bool real_time) noexcept;
// Lets threads of ordinary niceness go first (the right to this has everyone).
void run_behind(int niceness) noexcept;
// What run_promptly(true) is granted in this process, tried on a thread of its own.
[[nodiscard]] Promptness promptness_allowed();

}  // namespace mzcache::actors
