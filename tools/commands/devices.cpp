// `mzcache devices`: the compute devices there are and how each would hold units; the cores and
// their classes.
#include <cstdio>
#include <memory>

#include "command.h"
#include "mzcache/model_info.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

void print(const DeviceSummary& device, bool best) {
  std::printf("%s%s\n", device.name.c_str(), best ? "  (the one used unless --device says)" : "");
  std::printf("  platform     %s, %s, driver %s\n", device.platform.c_str(), device.version.c_str(),
              device.driver.c_str());
  std::printf("  kind         %s, %u compute units, vectors of %u floats%s%s\n",
              device.cpu ? "CPU" : "GPU or accelerator", device.compute_units, device.float_width,
              device.fp16 ? ", fp16" : "", device.subgroups ? ", subgroups" : "");
  std::printf("  SVM          %s\n", device.svm.c_str());
  std::printf("  memory       %s; evicted by the %s\n", device.memory.c_str(),
              device.granularity.c_str());
  std::printf("  kernels      %s\n", device.kernels.c_str());
}

int run(bool json) {
  const SystemInfo system = list_system();
  if (json) {
    print_json(to_json(system));
    return kExitDone;
  }
  for (const DeviceSummary& device : system.devices) {
    print(device, &device == system.devices.data());
  }
  if (system.devices.empty()) {
    std::printf("no OpenCL device (apt-get install pocl-opencl-icd for the processor as one)\n");
  }
  std::printf("cores\n");
  for (const CoreSummary& core : system.cores) {
    std::printf("  %-4u %-7s", core.id, core.core_class.c_str());
    if (core.capacity > 0)
      std::printf(" capacity %llu", static_cast<unsigned long long>(core.capacity));
    std::printf("\n");
  }
  return kExitDone;
}

}  // namespace

void add_devices(CLI::App& app, Commands& commands) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "List OpenCL devices and processor cores");
  command->add_flag("--json", *json, "One JSON object on stdout");
  command->footer("Example:\n  mzcache devices --json");
  commands.push_back({command, [json] { return run(*json); }});
}

}  // namespace mzcache::tools
