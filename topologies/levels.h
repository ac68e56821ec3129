#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology_draft.h"

namespace pipesim {

/// One level of a plain hierarchy: `size` members (devices, or groups of the level below) joined by a switch,
/// each by a cable of its own.
struct Level {
  std::int64_t size = 1;
  Cable cable;
};

/// Adds a hierarchy, innermost level first, in which a node is a group of the innermost level. Devices are
/// called gpu0 …, or node0.gpu0 … when there are several nodes; switches node0.switch, then level1.switch0
/// and so on. Sizes must be positive and their product at most max_devices.
void add_levels(TopologyDraft& draft, const DeviceKind& kind, const std::vector<Level>& levels);

/// The product of the sizes; max_devices + 1 for everything above max_devices.
std::int64_t device_count(const std::vector<Level>& levels);

/// The kind of device when a hierarchy does not say: V100-SXM2-16GB, the GPU of most published planner
/// results.
const DeviceKind& default_level_kind();

/// "levels:4@10GB/s,2@1.25GB/s", optionally with a latency each, "4@10GB/s@2us" (else 0). InputError
/// otherwise.
Topology levels_topology(std::string_view text);

}  // namespace pipesim
