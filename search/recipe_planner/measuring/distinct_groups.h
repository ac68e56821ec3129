#pragma once

#include <cstdint>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// Groups of a pipeline of which every other one is a copy: the same kinds of devices with the same routes
/// between them. Ascending; the groups are equal stretches of the devices.
std::vector<std::int64_t> distinct_groups(std::int64_t groups, const Topology& topology);

/// The same of pairs of groups that hold the same weights where a schedule goes both ways: number g and the
/// one as far from the other end. By the first group of each.
std::vector<std::int64_t> distinct_pairs(std::int64_t groups, const Topology& topology);

}  // namespace pipesim
