#pragma once

#include <optional>

#include "taskgraph/binding/plan_contents.h"
#include "taskgraph/expansion/folding.h"

namespace pipesim {

/// Finds the devices of a plan that always do the same at the same time, without making a task. It looks at
/// each operator, transfer and update once, however often layers and microbatches repeat them.
///
/// The proof adds the following to that of find_lane_classes(), which covers all statistics inside operators
/// and all communication. Devices whose compute lanes are in one class take the same steps and have shards of
/// the same operators. Passes and updates of these take as long, above 0, and need as much memory. The
/// devices use locally the same parts of the data that they hold.
///
/// Say that tasks are of one class when they have the same kind, microbatch and operator or tensor, and
/// either run on devices of one class or are in one class of their pattern. Then tasks of a class have
/// predecessors in the same classes. Lanes of a class are held by tasks of the same classes, one of each, in
/// the same order, since keys compare kind, microbatch and operator or tensor first. By induction over time,
/// tasks of a class become ready together, find their lanes free at the same time, and start and end
/// together. The same holds for barriers and gates. Those that take no time hold no lane and release work of
/// their own device only, and kinds alone decide whether that work or other work gets a lane first. What
/// those of 1 ns release is ready a moment later, and is compared by keys with all else. So one task per
/// class, on one lane per class of lanes, runs as all of them do.
///
/// Where microbatches go both ways, all of this holds for each way.
///
/// Nothing when a condition fails, or when too few devices are alike for folding to pay. Nothing either when
/// stages have replicas or weights change between microbatches.
std::optional<Folding> find_folding(const PlanContents& contents, const BoundStrategy& strategy);

/// Gives a folding the times that PlanContents::reprice() has given to the plan. False where its devices are
/// no longer alike, or alike in another way; it is of no use then.
bool reprice(Folding& folding, const PlanContents& contents);

}  // namespace pipesim
