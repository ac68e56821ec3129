#include "topologies/presets/flexflow_sim.h"

#include <fmt/format.h>

namespace pipesim {
namespace {

// INTRA_NODE_BANDWIDTH and CROSS_NODE_BANDWIDTH of scripts/simulator.cc, in bytes a millisecond.
constexpr double kInsideNode = 4 * 1024 * 1024, kBetweenNodes = 1024 * 1024;

Cable lossless_cable(double bytes_per_millisecond) {
  return {BytesPerSecond(bytes_per_millisecond * 1e3), Seconds(0), true};
}

DeviceKind ideal_device() {
  DeviceKind kind;
  kind.name = "flexflow-sim-device";
  kind.peak = {{DataType::Float32, FlopsPerSecond(5e12)}};
  kind.products.efficiency = {{Flops(1), 1}};
  kind.memory = Bytes(16'000'000'000);
  kind.memory_bandwidth = BytesPerSecond(500e9);
  kind.launch_overhead = Seconds(20 / 1e6);
  kind.shape_losses = false;
  kind.source = "estimated: round figures near a P100's; nothing is lost to shapes or sizes";
  return kind;
}

}  // namespace

void add_flexflow_sim_box(TopologyDraft& draft, const BoxPlace& place) {
  constexpr int kDevices = 4;  // WORKERS_PER_NODE
  const std::int32_t kind = draft.kind(ideal_device());
  const DraftVertex hub = draft.add_switch(place.prefix + "switch", place.node);
  for (int i = 0; i < kDevices; ++i)
    draft.connect(draft.add_device(fmt::format("{}gpu{}", place.prefix, i), kind, place.node), hub,
                  lossless_cable(kInsideNode));
  if (place.network.empty()) return;
  const DraftVertex nic = draft.add_nic(place.prefix + "nic0", place.node);
  draft.connect(hub, nic, lossless_cable(kInsideNode));
  draft.connect(nic, place.network.front(), lossless_cable(kBetweenNodes));
}

}  // namespace pipesim
