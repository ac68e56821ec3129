#pragma once

#include <vector>

#include "search/planners/pipedream.h"
#include "topologies/topology.h"

namespace pipesim {

/// A topology as PipeDream sees it: its devices in order, in equal groups inside equal groups, with the
/// bandwidth of the route between two members of a group. The first device of each group is measured.
/// InputError that names two devices whose connection does not fit such a hierarchy. A single device becomes
/// a level of one machine, whose bandwidth nobody uses.
std::vector<MachineLevel> machine_levels(const Topology& topology);

}  // namespace pipesim
