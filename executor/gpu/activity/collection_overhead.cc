#include "executor/gpu/activity/collection_overhead.h"

#include <fmt/format.h>

#include <vector>

#include "costmodel/distribution.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

Distribution step_times(std::span<const Nanoseconds> steps) {
  std::vector<double> seconds;
  for (const Nanoseconds step : steps) seconds.push_back(to_seconds(step).value);
  return Distribution(std::move(seconds));
}

}  // namespace

CollectionOverhead collection_overhead(std::span<const Nanoseconds> without,
                                       std::span<const Nanoseconds> with) {
  if (without.size() != with.size())
    throw InternalError(
        fmt::format("{} steps without collection can't be compared with {}", without.size(), with.size()));
  const Distribution before = step_times(without), after = step_times(with);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < with.size(); ++i)
    ratios.push_back(static_cast<double>(with[i]) / static_cast<double>(without[i]));
  const Distribution ratio(std::move(ratios));
  const auto percent = [&](double p) { return 100 * (ratio.quantile(p).value - 1); };
  return {with.size(),
          to_nanoseconds(before.median()),
          to_nanoseconds(after.median()),
          percent(0.5),
          percent(0.25),
          percent(0.75)};
}

std::string CollectionOverhead::str() const {
  return fmt::format("collection costs {:.1f} % of a step (middle half of {} pairs {:.1f} % to {:.1f} %)",
                     percent, pairs, low, high);
}

}  // namespace pipesim
