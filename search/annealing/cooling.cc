#include "search/annealing/cooling.h"

#include <algorithm>
#include <cmath>

namespace pipesim {
namespace {

constexpr double kHottest = 0.1;  // above, nearly all is accepted

}  // namespace

double Cooling::temperature(double heat, std::size_t rung, std::size_t rungs, double done) const {
  const double share = rungs < 2 ? 0 : static_cast<double>(rung) / static_cast<double>(rungs - 1);
  const double begin = std::clamp(heat * coldest * std::pow(hottest / coldest, share), end, kHottest);
  return begin * std::pow(end / begin, done);
}

}  // namespace pipesim
