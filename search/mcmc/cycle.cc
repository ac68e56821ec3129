#include "search/mcmc/cycle.h"

#include <algorithm>
#include <cmath>

namespace pipesim {

Cycle nth_cycle(Grain grain, std::int64_t n, std::size_t chains) {
  constexpr std::int64_t kGrown = 40;  // cycles after which they grow no more
  constexpr double kGrowth = 1.4;
  const double first = grain == Grain::Repeats ? 1 : 2;
  Cycle cycle;
  cycle.grain = grain;
  cycle.chains = n < 8 ? std::min(chains, std::size_t{2} << n) : chains;
  cycle.rounds = std::llround(first * std::pow(kGrowth, static_cast<double>(std::min(n, kGrown))));
  return cycle;
}

double next_heat(double heat, const std::vector<double>& begun, const std::vector<double>& ended,
                 bool gained) {
  constexpr double kStep = 3, kLargeStep = 10, kLeast = 1e-3, kMost = 1e3;
  std::size_t above = 0;
  for (std::size_t i = 0; i < begun.size(); ++i) above += ended[i] > begun[i] ? 1 : 0;
  if (2 * above > begun.size()) return std::max(heat / kStep, kLeast);
  return gained ? std::min(heat * kStep, std::max(heat, 1.0)) : std::min(heat * kLargeStep, kMost);
}

}  // namespace pipesim
