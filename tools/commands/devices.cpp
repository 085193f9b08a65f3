// `mzcache devices`: the compute devices there are and how each would hold units; the cores and
// their classes.
#include <cctype>
#include <cstdio>
#include <memory>

#include "command.h"
#include "mzcache/model_info.h"
#include "options.h"
#include "report_json.h"
#include "usage.h"

namespace mzcache::tools {
namespace {

void print(const DeviceSummary& device, bool best) {
  std::printf("%s%s\n", device.name.c_str(), best ? "  (the one that is used)" : "");
  std::printf("  platform     %s, %s, driver %s\n", device.platform.c_str(), device.version.c_str(),
              device.driver.c_str());
  std::printf("  kind         %s, %u compute units, vectors of %u floats%s%s\n",
              device.cpu ? "CPU" : "GPU or accelerator", device.compute_units, device.float_width,
              device.fp16 ? ", fp16" : "", device.subgroups ? ", subgroups" : "");
  std::printf("  SVM          %s\n", device.svm.c_str());
  std::printf("  memory       %s; evicted by the %s\n", device.memory.c_str(),
              device.granularity.c_str());
  std::printf("  kernels      %s%s\n", device.kernels.c_str(),
              device.dot_products ? ", integer dot products" : "");
}

std::string lowercase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The one a runtime with this configuration would take: the first whose whole name it is, or else
// whose name, or platform, contains it. They are listed best first.
const DeviceSummary* used(const SystemInfo& system, const std::string& name) {
  const std::string wanted = lowercase(name);
  for (const DeviceSummary& device : system.devices) {
    if (lowercase(device.name) == wanted) return &device;
  }
  for (const DeviceSummary& device : system.devices) {
    if (lowercase(device.name).find(wanted) != std::string::npos ||
        lowercase(device.platform).find(wanted) != std::string::npos) {
      return &device;
    }
  }
  if (name.empty()) return nullptr;
  std::string names;
  for (const DeviceSummary& device : system.devices) {
    names += (names.empty() ? "" : ", ") + device.name;
  }
  throw Exception(Error{
      ErrorCode::kNotFound, 0, "device.name",
      "no device's name contains \"" + name + "\"; there are: " + (names.empty() ? "none" : names),
      "device.name"});
}

int run(const CommonOptions& common, bool json) {
  const SystemInfo system = list_system();
  const DeviceSummary* const chosen = used(system, common.config().device.name);
  if (json) {
    print_json(to_json(system));
    return kExitDone;
  }
  for (const DeviceSummary& device : system.devices) {
    print(device, &device == chosen);
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

void add_devices(CommandLine& app, Commands& commands) {
  auto json = std::make_shared<bool>(false);
  auto common = std::make_shared<CommonOptions>();
  CommandLine& command = app.add_subcommand("devices", "List OpenCL devices and processor cores");
  common->add_without_timelines_to(command);
  command.add_flag("--json", *json, "One JSON object on stdout");
  command.footer("Example:\n  mzcache devices --json");
  commands.push_back({&command, [common, json] { return run(*common, *json); }});
}

}  // namespace mzcache::tools
