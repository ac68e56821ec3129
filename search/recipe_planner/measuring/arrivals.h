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

/// Returns, by shard of the reader, when the last of what the plan's tasks bring is there. A task begins when
/// it may (`begins`, by task) and those that it waits for have ended. With `sent_alone` only tasks that bring
/// the reader something take time. Each takes this share of its time.
Moments arrivals_of(const CommunicationPlan& plan, Moments begins, const BoundOperator& reader,
                    bool sent_alone, double share = 1);
/// Returns, by shard of the reader, when what the plan brings is there. Tasks take this share of their time.
Moments arrivals_of(const CommunicationPlan& plan, const std::vector<Maker>& makers,
                    const BoundOperator& reader, double share = 1);

}  // namespace pipesim
