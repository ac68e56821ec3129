#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "costmodel/links/hops.h"

namespace pipesim {

/// Bandwidth that is not yet given away, bytes per second, of the lanes that a group's hops have met.
class FreeBandwidth {
 public:
  /// All that the lanes can carry, also those that `hops` meets later.
  explicit FreeBandwidth(const Hops& hops) : hops_(hops) {}
  [[nodiscard]] double of(MetLane lane) const {
    return lane.number < left_.size() ? left_[lane.number] : hops_.bandwidths()[lane.number];
  }
  void take(MetLane lane, double amount);

 private:
  const Hops& hops_;
  std::vector<double> left_;  ///< by number, as far as something was taken
};

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

}  // namespace pipesim
