#pragma once

#include <cstdint>
#include <vector>

#include "search/recipe_planner/measuring/moments.h"
#include "taskgraph/moving/communication_plan.h"

namespace pipesim {

/// What provides data for a transfer: an operator's shards, and when they have made it.
struct Maker {
  const BoundOperator* bound;
  const Moments* made;
  std::int32_t term;
};

/// By shard of the reader: when the last of what the plan's tasks bring is there. A task takes its time when
/// it may begin (`begins`, by task) and those that it waits for have ended; with `sent_alone` only those take
/// time that bring the reader something. Tasks take a share of their time.
Moments arrivals_of(const CommunicationPlan& plan, Moments begins, const BoundOperator& reader,
                    bool sent_alone, double share = 1);
/// By shard of the reader: when what the plan brings is there. Its tasks take a share of their time.
Moments arrivals_of(const CommunicationPlan& plan, const std::vector<Maker>& makers,
                    const BoundOperator& reader, double share = 1);

}  // namespace pipesim
