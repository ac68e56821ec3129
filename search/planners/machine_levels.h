#pragma once

#include <vector>

#include "search/planners/pipedream.h"
#include "topologies/topology.h"

namespace pipesim {

/// A topology as PipeDream sees it: runs of its devices in order, equal groups inside equal groups, and the
/// bandwidth of the way between two members of a group. InputError with two devices that are connected
/// otherwise; of each group the first device is looked at. One device: a level of one machine, whose
/// bandwidth nobody uses.
std::vector<MachineLevel> machine_levels(const Topology& topology);

}  // namespace pipesim
