#include "search/simulated_part.h"

#include <algorithm>

namespace pipesim {

Nanoseconds SimulatedPart::time_spent(Nanoseconds begin, Nanoseconds end) const {
  Nanoseconds time = end - begin;
  for (const SteadyWindow& w : steady().windows)
    time += steady().repeats * std::max<Nanoseconds>(0, std::min(end, w.end) - std::max(begin, w.begin));
  return time;
}

std::int64_t SimulatedPart::times(Nanoseconds begin) const {
  std::int64_t times = 1;
  for (const SteadyWindow& w : steady().windows) {
    if (begin >= w.begin && begin < w.end) times += steady().repeats;
  }
  return times;
}

std::vector<std::int64_t> SimulatedPart::devices_alike() const {
  std::vector<std::int64_t> alike(topology().num_devices(), 0);
  for (std::size_t d = 0; d < alike.size(); ++d) ++alike[stands_for(DeviceId(d)).index()];
  return alike;
}

}  // namespace pipesim
