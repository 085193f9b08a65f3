#include "gpu/kernel_manifest.h"

namespace mzcache::gpu {

const std::vector<WarmUpLaunch>& warm_up_launches() {
  static const std::vector<WarmUpLaunch> launches;
  return launches;
}

}  // namespace mzcache::gpu
