#include "search/recipe_planner/measuring/arrivals.h"

#include <algorithm>
#include <utility>

namespace pipesim {

namespace {

void raise(Nanoseconds& moment, Nanoseconds other) { moment = std::max(moment, other); }

// Rounded down: for bounds.
Nanoseconds part_of(Nanoseconds time, double share) {
  return share == 1 ? time : static_cast<Nanoseconds>(static_cast<double>(time) * share);
}

}  // namespace

Moments arrivals_of(const CommunicationPlan& plan, Moments begins, const BoundOperator& reader,
                    bool sent_alone, double share) {
  const PlanExpansion& expansion = plan.expansion;
  std::vector<bool> takes_time(begins.size(), !sent_alone);
  for (const PlanExpansion::Arrival a : expansion.arrivals) {
    if (reader.shard_of_device[a.device.index()] >= 0) takes_time[static_cast<std::size_t>(a.task)] = true;
  }
  Moments& ends = begins;
  auto wait = expansion.waits.begin();  // in the order of the tasks that wait, for earlier ones
  for (std::size_t t = 0; t < ends.size(); ++t) {
    for (; wait != expansion.waits.end() && static_cast<std::size_t>(wait->after) == t; ++wait)
      raise(ends[t], ends[static_cast<std::size_t>(wait->before)]);
    if (takes_time[t]) ends[t] = after(ends[t], part_of(expansion.tasks[t].duration, share));
  }
  Moments there(reader.config.devices.size(), kNoChain);
  for (const PlanExpansion::Arrival a : expansion.arrivals) {
    const std::int32_t shard = reader.shard_of_device[a.device.index()];
    if (shard >= 0) raise(there[static_cast<std::size_t>(shard)], ends[static_cast<std::size_t>(a.task)]);
  }
  return there;
}

Moments arrivals_of(const CommunicationPlan& plan, const std::vector<Maker>& makers,
                    const BoundOperator& reader, double share) {
  Moments begins(plan.expansion.tasks.size(), kNoChain);
  for (const PlanExpansion::Contribution& c : plan.expansion.contributions) {
    for (const Maker& maker : makers) {
      const std::int32_t shard = maker.bound->shard_of_device[c.device.index()];
      if (shard >= 0 && (c.term < 0 || c.term == maker.term))
        raise(begins[static_cast<std::size_t>(c.task)], (*maker.made)[static_cast<std::size_t>(shard)]);
    }
  }
  Moments there = arrivals_of(plan, std::move(begins), reader, false, share);
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
