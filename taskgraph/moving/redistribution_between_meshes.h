#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/base/units.h"
#include "taskgraph/moving/redistribution_candidates.h"

namespace pipesim {

/// Whether a tensor moves between sets of devices that have none in common, as between stages of a pipeline,
/// and without sums. Then nothing but messages and broadcasts leads from one set to the other.
bool between_meshes(const Layout& from, const Layout& to);

/// Returns when the plan's tasks, simulated, have ended, if all of `from` is there at 0 and nothing else is
/// on the links. `after` must be set (link_rounds).
Nanoseconds simulated_time(std::span<const RedistributionStep> steps, std::int64_t element_bytes,
                           CommunicationPrices& prices);

/// Returns steps that take less time than `steps`, the cheapest of each component. Nothing where none are
/// found that save more than the accuracy of prices. Both layouts are between_meshes().
///
/// A unit task is the part of a source box that lies in a wanted box: devices that hold it, devices that want
/// it. For each there are up to three ways from each node that holds it: a broadcast, a message for every
/// device, or a share for every device of a node followed by a gathering in the node. order_transfers()
/// chooses ways, senders and the order of the unit tasks, or the order of `steps` if they stay (Zhuang et
/// al., "On Optimizing the Communication of Model Parallelism", arXiv:2211.05322, section 3). With more than
/// kMostUnitTasks unit tasks, or with boxes that overlap in part, only the order is tried.
std::optional<std::vector<RedistributionStep>> faster_between_meshes(
    std::span<const RedistributionStep> steps, const Layout& from, const Layout& to,
    const RedistributionSetting& setting);
inline constexpr std::size_t kMostUnitTasks = 64;

}  // namespace pipesim
