// Which launches a fresh program is warmed up with, so that devices which specialise kernels at
// their first launch (PoCL) have done so before the binary is saved.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace mzcache::gpu {

struct WarmUpLaunch {
  std::string_view kernel;
  std::array<std::size_t, 3> local{1, 1, 1};
};

// Launches beyond those the kernels declare themselves: a kernel with reqd_work_group_size is
// warmed up at that size without being named here.
[[nodiscard]] const std::vector<WarmUpLaunch>& warm_up_launches();

}  // namespace mzcache::gpu
