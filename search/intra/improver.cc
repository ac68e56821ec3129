#include "search/intra/improver.h"

#include <algorithm>
#include <cmath>

namespace pipesim {

void Improver::run(std::uint64_t work, const RowPrices& prices, const Best& best,
                   const std::vector<std::uint32_t>* start, double bound) {
  moves_.set_prices(prices);
  const bool allowed = best.excess == 0;
  if (step_ == steps_) {
    // A new run begins. Each third one is from the bound's choice, and cold, since that is far from a local
    // optimum.
    step_ = 0;
    const bool from_bound = start != nullptr && (runs_ % 3 == 0 || !allowed);
    moves_.set(from_bound ? *start : best.choice);
    steps_ = from_bound ? 2 : 4 + rng_.below(8);
    // What a node may lose: the gap is the sum of many such losses.
    const double gap = std::max(best.cost - bound, 1.0);
    hottest_ = from_bound || !allowed ? 0 : gap * std::pow(10.0, -1 - 3 * rng_.uniform());
    ++runs_;
  }
  const double left = static_cast<double>(steps_ - 1 - step_) / static_cast<double>(steps_);
  const double temperature = step_ + 1 == steps_ ? 0 : hottest_ * left;
  constexpr double kNodesAtOnce = 20;  // that may be disturbed in an accepted choice
  moves_.run(work, temperature, temperature * kNodesAtOnce);
  ++step_;
}

}  // namespace pipesim
