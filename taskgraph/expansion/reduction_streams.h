#pragma once

#include <span>

#include "taskgraph/expansion/made_tasks.h"

namespace pipesim {

class StrategyExpander;

/// Lets each device reduce one piece of gradients after the other, as on a stream of its own: what stages wait
/// for then queues up behind one piece at most, and not behind all that are ready. The last operators' come
/// first, as backward makes them. Pieces of a plan that takes several rounds wait within each round.
///
/// `syncs`: numbers of wirings, of gradients that are reduced once an iteration.
void put_on_streams(StrategyExpander& expander, std::span<const std::size_t> syncs);

}  // namespace pipesim
