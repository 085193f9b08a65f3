// Where the device's worker threads may run.
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "gpu/device_discovery.h"

namespace mzcache::gpu {
namespace {

constexpr unsigned kCpusMax = 4096;
constexpr std::size_t kMaskWords = kCpusMax / (8 * sizeof(unsigned long));
using Mask = std::vector<unsigned long>;

Mask affinity_of(pid_t thread) {
  Mask mask(kMaskWords, 0);
  auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
  if (sched_getaffinity(thread, mask.size() * sizeof(unsigned long), set) != 0) mask.clear();
  return mask;
}

void set_affinity(const Mask& mask) {
  const auto* set = reinterpret_cast<const cpu_set_t*>(mask.data());
  (void)sched_setaffinity(0, mask.size() * sizeof(unsigned long), set);
}

std::vector<unsigned> cpus_of(const Mask& mask) {
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < mask.size() * kBits; ++cpu) {
    if ((mask[cpu / kBits] >> (cpu % kBits) & 1UL) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace

bool may_use_first_cpus(const std::vector<unsigned>& allowed, unsigned configured) {
  if (allowed.empty() || allowed.size() != configured) return false;
  for (unsigned i = 0; i < allowed.size(); ++i) {
    if (allowed[i] != i) return false;
  }
  return true;
}

Result<std::string> prepare_worker_affinity(std::string_view pin_workers) {
  // "auto" leaves the workers free: restores run beside them, and then free workers did better.
  if (pin_workers == "auto" || pin_workers == "false" || pin_workers.empty()) return std::string();
  if (pin_workers != "true") {
    return Error{ErrorCode::kBadConfig, 0, "device.pin_workers",
                 "\"" + std::string(pin_workers) + "\" is none of auto, true, false"};
  }
  if (std::getenv("POCL_AFFINITY") != nullptr) return std::string();  // the user's own choice
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const auto allowed = cpus_of(affinity_of(getpid()));
  if (!may_use_first_cpus(allowed, static_cast<unsigned>(online > 0 ? online : 0))) {
    return std::string(
        "device.pin_workers: workers stay unpinned, because this process may not "
        "run on every CPU from 0 on");
  }
  (void)setenv("POCL_AFFINITY", "1", 0);
  return std::string();
}

UnpinnedScope::UnpinnedScope() {
  const Mask mine = affinity_of(0);
  const Mask leader = affinity_of(getpid());
  if (mine.empty() || leader.empty() || mine == leader) return;
  saved_ = mine;
  set_affinity(leader);
}

UnpinnedScope::~UnpinnedScope() {
  if (!saved_.empty()) set_affinity(saved_);
}

}  // namespace mzcache::gpu
