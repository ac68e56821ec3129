#pragma once

#include <optional>

#include "taskgraph/binding/plan_contents.h"
#include "taskgraph/expansion/folding.h"

namespace pipesim {

/// The devices of a plan that always do the same at the same time, found without making a task: operators,
/// transfers and updates are looked at once each, however often layers and microbatches repeat them.
///
/// What is proven, beside what find_lane_classes() proves of all statistics inside operators and all
/// communication. Devices whose compute lanes are of one class take the same steps, have shards of the same
/// operators, whose passes and updates take as long, above 0, and need as much memory; they use locally the
/// same of what they hold. Take tasks to be of one class when they are of one kind, microbatch and operator
/// or tensor, and on devices of a class or in a class of their pattern. Then tasks of a class have
/// predecessors in the same classes, and lanes of a class are held by tasks of the same classes, one of each,
/// in the same order, since keys decide by kind, microbatch and operator or tensor first. By induction over
/// time tasks of a class become ready together, find their lanes free at the same time, and start and end
/// together. Barriers and gates, which take no time, hold no lane and let go only work of their own device;
/// whether that or something else gets a lane first depends on kinds alone. So a task for each class on a
/// lane for each class of lanes runs as all of them do.
///
/// Nothing where a condition fails, or too few devices are alike for folding to pay; nor where microbatches
/// go several ways, or weights change between them.
///
/// `of_steps`: gets one of the steps of microbatches alone, without what synchronises weights and updates
/// them, and whatever weights devices keep, where clearly fewer devices stand for others there. What is
/// alike in the one that is returned is alike there.
std::optional<Folding> find_folding(const PlanContents& contents, const BoundStrategy& strategy,
                                    std::optional<Folding>* of_steps = nullptr);

}  // namespace pipesim
