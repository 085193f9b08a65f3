#include "actors/prompt_thread.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace mzcache::actors {
namespace {

// struct sched_attr as of its first version; glibc has it since 2.41.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  // of SCHED_OTHER: the time slice, nanoseconds
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

constexpr std::uint64_t kShortSlice = 100'000;  // the shortest there is
constexpr int kPromptNice = -10;

}  // namespace

const char* promptness_name(Promptness promptness) noexcept {
  switch (promptness) {
    case Promptness::kRealTime:
      return "real-time";
    case Promptness::kRaised:
      return "raised";
    case Promptness::kOrdinary:
      return "ordinary";
  }
  return "";
}

Promptness run_promptly(bool real_time) noexcept {
  sched_param lowest = {};
  lowest.sched_priority = sched_get_priority_min(SCHED_FIFO);
  // Threads it makes are ordinary ones again.
  if (real_time && sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0) {
    return Promptness::kRealTime;
  }
  // A niceness of -1 and a failure look alike; to fail it would need a thread that is not there.
  if (getpriority(PRIO_PROCESS, 0) > kPromptNice) {
    (void)setpriority(PRIO_PROCESS, 0, kPromptNice);
  }
  SchedulingAttributes attributes;
  attributes.runtime = kShortSlice;
  attributes.nice = getpriority(PRIO_PROCESS, 0);  // set with the slice: as it is now
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0U);
  return attributes.nice < 0 ? Promptness::kRaised : Promptness::kOrdinary;
}

void run_behind(int niceness) noexcept { (void)setpriority(PRIO_PROCESS, 0, niceness); }

Promptness promptness_allowed() {
  Promptness allowed = Promptness::kOrdinary;
  std::thread([&allowed] { allowed = run_promptly(true); }).join();
  return allowed;
}

}  // namespace mzcache::actors
