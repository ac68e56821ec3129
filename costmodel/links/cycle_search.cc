#include "costmodel/links/cycle_search.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipesim {

namespace {

/// Extensions tried by one search: all cycles of 8 members are fewer.
constexpr int search_effort = 20'000;
/// Rates closer than this are the same rate.
constexpr double same_rate = 1e-9;
constexpr double least_cycle_share = 0.05;

class CycleSearch {
 public:
  CycleSearch(Hops& hops, std::span<const DeviceId> members, const FreeBandwidth& free, Taste taste)
      : n_(members.size()), free_(free), hop_(n_ * n_), gain_(n_ * n_), order_{0} {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) {
        if (i == j) continue;
        hop_[i * n_ + j] = &hops.between(members[i], members[j]);
        double width = width_of(*hop_[i * n_ + j]);
        gain_[i * n_ + j] = taste == Taste::FatHops ? width : -width;
      }
    }
    used_.assign(hops.bandwidths().size(), 0);
    visited_.assign(n_, false);
    visited_[0] = true;
    for (std::size_t i = 0; i < n_; ++i) best_gain_.push_back(best_gain_from(i));
  }

  Cycle run() {
    double hoped = std::accumulate(best_gain_.begin(), best_gain_.end(), 0.0);
    extend(std::numeric_limits<double>::infinity(), 0, hoped);
    return best_;
  }

 private:
  double width_of(const Hop& hop) const {
    double width = std::numeric_limits<double>::infinity();
    for (const LaneShare& part : hop.lanes) width = std::min(width, free_.of(part.lane) / part.share);
    return width;
  }

  double best_gain_from(std::size_t i) const {
    double best = -std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < n_; ++j) {
      if (j != i) best = std::max(best, gain_[i * n_ + j]);
    }
    return best;
  }

  /// Uses the hop and returns the cycle's rate with it.
  double enter(const Hop& hop, double rate) {
    for (const LaneShare& part : hop.lanes) {
      double& used = used_[part.lane.number];
      used += part.share;
      rate = std::min(rate, free_.of(part.lane) / used);
    }
    return rate;
  }

  void leave(const Hop& hop) {
    for (const LaneShare& part : hop.lanes) used_[part.lane.number] -= part.share;
  }

  /// `hoped`: the most that the hops still to come can gain.
  bool can_improve(double rate, double gain, double hoped) const {
    if (rate <= 0) return false;
    if (rate > best_.rate * (1 + same_rate)) return true;
    return rate >= best_.rate * (1 - same_rate) && gain + hoped > best_gain_found_ + same_rate * best_.rate;
  }

  void close(double rate, double gain) {
    std::size_t last = order_.back();
    const Hop& hop = *hop_[last * n_];
    double closed = enter(hop, rate);
    leave(hop);
    gain += gain_[last * n_];
    if (!can_improve(closed, gain, 0)) return;
    best_ = {order_, closed};
    best_gain_found_ = gain;
  }

  void extend(double rate, double gain, double hoped) {
    if (order_.size() == n_) return close(rate, gain);
    std::size_t from = order_.back();
    for (std::size_t next : by_gain(from)) {
      if (++tried_ > search_effort) return;
      const Hop& hop = *hop_[from * n_ + next];
      double wide = enter(hop, rate);
      double gained = gain + gain_[from * n_ + next], rest = hoped - best_gain_[from];
      if (can_improve(wide, gained, rest)) {
        visited_[next] = true;
        order_.push_back(next);
        extend(wide, gained, rest);
        order_.pop_back();
        visited_[next] = false;
      }
      leave(hop);
    }
  }

  std::vector<std::size_t> by_gain(std::size_t from) const {
    std::vector<std::size_t> next;
    for (std::size_t j = 0; j < n_; ++j) {
      if (!visited_[j]) next.push_back(j);
    }
    std::stable_sort(next.begin(), next.end(), [&](std::size_t a, std::size_t b) {
      return gain_[from * n_ + a] > gain_[from * n_ + b];
    });
    return next;
  }

  std::size_t n_;
  const FreeBandwidth& free_;
  std::vector<double> used_;  ///< by lane: how often the path so far passes it
  std::vector<const Hop*> hop_;
  std::vector<double> gain_, best_gain_;
  std::vector<bool> visited_;
  std::vector<std::size_t> order_;
  Cycle best_;
  double best_gain_found_ = -std::numeric_limits<double>::infinity();
  int tried_ = 0;
};

LoadTable load_of(Hops& hops, std::span<const DeviceId> members, const Cycle& cycle) {
  LoadTable load;
  for (std::size_t i = 0; i < cycle.order.size(); ++i) {
    std::size_t next = cycle.order[(i + 1) % cycle.order.size()];
    load.add(hops.between(members[cycle.order[i]], members[next]), 1);
  }
  return load;
}

std::vector<Cycle> greedy_cycles(Hops& hops, std::span<const DeviceId> members, Taste taste) {
  FreeBandwidth free(hops);
  std::vector<Cycle> cycles;
  double total = 0;
  for (;;) {
    Cycle cycle = widest_cycle(hops, members, free, taste);
    if (cycle.rate <= total * least_cycle_share) return cycles;
    take(load_of(hops, members, cycle), cycle.rate, free);
    total += cycle.rate;
    cycles.push_back(std::move(cycle));
  }
}

double total_rate(const std::vector<Cycle>& cycles) {
  double total = 0;
  for (const Cycle& cycle : cycles) total += cycle.rate;
  return total;
}

}  // namespace

Cycle widest_cycle(Hops& hops, std::span<const DeviceId> members, const FreeBandwidth& free, Taste taste) {
  return CycleSearch(hops, members, free, taste).run();
}

std::vector<Cycle> disjoint_cycles(Hops& hops, std::span<const DeviceId> members) {
  std::vector<Cycle> fat = greedy_cycles(hops, members, Taste::FatHops);
  // A single cycle took all that some member has: no other choice gives more than its width.
  if (fat.size() == 1 || members.size() <= 3) return fat;
  std::vector<Cycle> thin = greedy_cycles(hops, members, Taste::ThinHops);
  return total_rate(thin) > total_rate(fat) * (1 + same_rate) ? thin : fat;
}

double common_rate(const LoadTable& load, const FreeBandwidth& free) {
  double rate = std::numeric_limits<double>::infinity();
  for (MetLane lane : load.lanes()) rate = std::min(rate, free.of(lane) / load.of(lane));
  return rate;
}

void take(const LoadTable& load, double rate, FreeBandwidth& free) {
  for (MetLane lane : load.lanes()) free.take(lane, rate * load.of(lane));
}

void FreeBandwidth::take(MetLane lane, double amount) {
  std::span<const double> all = hops_.bandwidths();
  if (left_.size() < all.size())
    left_.insert(left_.end(), all.begin() + static_cast<std::ptrdiff_t>(left_.size()), all.end());
  left_[lane.number] = std::max(0.0, left_[lane.number] - amount);
}

}  // namespace pipesim
