#pragma once

#include <cstdint>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// Returns groups of a pipeline such that every other group is a copy of one of them: the same kinds of
/// devices with the same routes between them. They are ascending; groups are equal stretches of the devices.
std::vector<std::int64_t> distinct_groups(std::int64_t groups, const Topology& topology);

/// Returns the same for pairs of groups that hold the same weights where a schedule goes both ways: group g
/// and the one as far from the other end. A pair is named by g.
std::vector<std::int64_t> distinct_pairs(std::int64_t groups, const Topology& topology);

/// The class of each group: those of a class have devices of the same kinds, in the same order. Empty where
/// all devices are of one kind.
std::vector<std::size_t> classes_by_kinds(std::int64_t groups, const Topology& topology);

/// Pairs of groups that are neighbours in a pipeline, each with the one that is `apart` groups behind it;
/// behind the last group comes the first one.
struct NeighbourGroups {
  std::vector<std::size_t> class_of;   ///< by the first group of a pair: those of a class are copies
  std::vector<std::int64_t> distinct;  ///< by class: the first group of its first pair
};
NeighbourGroups neighbour_groups(std::int64_t groups, std::int64_t apart, const Topology& topology);

}  // namespace pipesim
