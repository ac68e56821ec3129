#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "costmodel/links/hops.h"

namespace pipesim {

/// Bandwidth per lane that is not yet given away, bytes per second.
using FreeBandwidth = std::vector<double>;

/// A directed cycle through all members, as positions, and the rate that all of its hops can have at the same
/// time.
struct Cycle {
  std::vector<std::size_t> order;
  double rate = 0;
};

/// Which of several equally wide cycles to choose.
enum class Taste : bool {
  FatHops,  ///< through the hops with most left, so that the thin ones stay for others
  ThinHops
};

/// The widest Hamiltonian cycle over the members' hops, found by depth-first search with bounds; after a
/// fixed effort the best so far. A lane that the cycle passes twice counts twice. Rate 0 when nothing is
/// left.
Cycle widest_cycle(Hops& hops, std::span<const DeviceId> members, const FreeBandwidth& free, Taste taste);

/// Widest cycles one after the other, each over what the earlier ones left; those under 1% of the total are
/// dropped.
std::vector<Cycle> disjoint_cycles(Hops& hops, std::span<const DeviceId> members);

/// The rate that all hops in `load` (amount 1 each) can have: min over the lanes of free bandwidth / times
/// used.
double common_rate(const LoadTable& load, const FreeBandwidth& free);
void take(const LoadTable& load, double rate, FreeBandwidth& free);
/// Everything that the lanes of the topology's links can carry.
FreeBandwidth all_bandwidth(const Topology& topology);

}  // namespace pipesim
