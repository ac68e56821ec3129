#include "topologies/presets/cpu.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "topologies/topology_draft.h"

namespace pipesim {
namespace {

DeviceKind cpu_core() {
  DeviceKind kind;
  kind.name = "cpu-core";
  kind.peak = {{DataType::Float32, FlopsPerSecond(80e9)}};
  kind.products.efficiency = {{Flops(1), 0.7}};
  kind.memory = Bytes(8'000'000'000);
  kind.memory_bandwidth = BytesPerSecond(10e9);
  kind.memory_efficiency = 0.8;
  kind.launch_overhead = Seconds(5e-6);
  kind.overlap = false;
  kind.source =
      "estimated: 2 x 8-wide multiply-add a cycle at 2.5 GHz (AVX2); the rest are round figures: calibrate";
  return kind;
}

}  // namespace

Topology cpu_topology(std::int64_t devices) {
  if (devices < 1 || devices > max_devices)
    throw InputError(
        fmt::format("topology \"cpu:{}\": found {} devices, allowed 1 to {}", devices, devices, max_devices));
  TopologyDraft draft(devices == 2 ? "cpu" : fmt::format("cpu:{}", devices), "threads of one host");
  const std::int32_t node = draft.add_node("host"), kind = draft.kind(cpu_core());
  const DraftVertex memory = draft.add_switch("memory", node);
  // A message is copied once, and both ends must be woken up.
  const Cable copies{BytesPerSecond(5e9), Seconds(10e-6), true};
  for (std::int64_t d = 0; d < devices; ++d)
    draft.connect(draft.add_device(fmt::format("cpu{}", d), kind, node), memory, copies);
  return Topology(std::move(draft).finish());
}

}  // namespace pipesim
