#include "search/recipe_planner/measuring/arrivals.h"

#include <algorithm>

namespace pipesim {

Moments arrivals_of(const CommunicationPlan& plan, const std::vector<Maker>& makers,
                    const BoundOperator& reader) {
  const auto raise = [](Nanoseconds& moment, Nanoseconds other) { moment = std::max(moment, other); };
  Moments ends(plan.expansion.tasks.size(), kNoChain);
  for (const PlanExpansion::Contribution& c : plan.expansion.contributions) {
    for (const Maker& maker : makers) {
      const std::int32_t shard = maker.bound->shard_of_device[c.device.index()];
      if (shard >= 0 && (c.term < 0 || c.term == maker.term))
        raise(ends[static_cast<std::size_t>(c.task)], (*maker.made)[static_cast<std::size_t>(shard)]);
    }
  }
  std::vector<std::vector<std::int32_t>> waits(ends.size());
  for (const PlanExpansion::Wait& w : plan.expansion.waits)
    waits[static_cast<std::size_t>(w.after)].push_back(w.before);
  for (std::size_t t = 0; t < ends.size(); ++t) {  // a task waits for earlier ones
    for (const std::int32_t before : waits[t]) raise(ends[t], ends[static_cast<std::size_t>(before)]);
    ends[t] = after(ends[t], plan.expansion.tasks[t].duration);
  }
  Moments there(reader.config.devices.size(), kNoChain);
  for (const PlanExpansion::Arrival& a : plan.expansion.arrivals) {
    const std::int32_t shard = reader.shard_of_device[a.device.index()];
    if (shard >= 0) raise(there[static_cast<std::size_t>(shard)], ends[static_cast<std::size_t>(a.task)]);
  }
  for (const DeviceId d : plan.local) {
    const std::int32_t shard = reader.shard_of_device[d.index()];
    for (const Maker& maker : makers) {
      const std::int32_t from = maker.bound->shard_of_device[d.index()];
      if (shard >= 0 && from >= 0)
        raise(there[static_cast<std::size_t>(shard)], (*maker.made)[static_cast<std::size_t>(from)]);
    }
  }
  return there;
}

}  // namespace pipesim
