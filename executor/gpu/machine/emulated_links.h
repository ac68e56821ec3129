#pragma once

#include <memory>

#include "executor/gpu/machine/collectives.h"
#include "executor/gpu/machine/machine.h"
#include "topologies/topology.h"

namespace pipesim::gpu {

/// The size as the cost model counts it.
Bytes size_on_links(const CollectiveCall& call);

/// Makes transfers take at least as long as on the topology's links, by the analytic cost model. As in the
/// simulator, a link's lane does one thing at a time: a collective takes its lanes when all members have
/// arrived and all its lanes are free. Its data moves at once; its streams continue when both the data and
/// the time are over. Results are those of `collectives`. Lanes are taken in the order in which members
/// arrive, not in the simulated order.
///
/// For devices that share one memory. Their clock continues from step to step, so lanes need no reset: every
/// hold of a lane has ended by then. All arguments but `collectives` must outlive it.
std::unique_ptr<Collectives> make_emulated_links(Machine& machine, std::unique_ptr<Collectives> collectives,
                                                 const Topology& topology);

}  // namespace pipesim::gpu
