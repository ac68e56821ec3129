#pragma once

#include <cstdint>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// Returns layers by group, for pipelines whose groups have devices of several kinds: the same number on all
/// groups of a class (classes_by_kinds()) and at least one. Where that does not come out even, the last group
/// has up to two more or fewer. There are at most 64 divisions, those nearest to the peak rates of the
/// devices first. Empty where all devices are of one kind.
std::vector<std::vector<std::int64_t>> mixed_divisions(std::int64_t groups, std::int64_t layers,
                                                       const Topology& topology);

}  // namespace pipesim
