#pragma once

#include <memory>

#include "executor/gpu/machine/collectives.h"
#include "executor/gpu/machine/machine.h"
#include "topologies/topology.h"

namespace pipesim::gpu {

/// As the cost model counts it.
Bytes size_on_links(const CollectiveCall& call);

/// What moves takes at least as long as on the topology's links, by the analytic cost model, and as in the
/// simulator a link's lane does one thing at a time: a collective takes its lanes when all members have come
/// and all of them are free. Its data moves at once; its streams go on when both are done. Results are those
/// of `collectives`. Lanes are taken in the order in which members come, not in the simulated one.
///
/// For devices that share one memory. Their clock goes on from step to step, so that lanes need no reset:
/// whatever kept them has been waited for. All but `collectives` must outlive it.
std::unique_ptr<Collectives> make_emulated_links(Machine& machine, std::unique_ptr<Collectives> collectives,
                                                 const Topology& topology);

}  // namespace pipesim::gpu
