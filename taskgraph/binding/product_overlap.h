#pragma once

#include <cstdint>
#include <optional>

#include "taskgraph/moving/communication_plan.h"

namespace pipesim {

// Frameworks cut a gather of a product's input, or the scattered sum of a product's results, into parts and
// move one part while the product of another is computed: Megatron-LM's --tp-comm-overlap, PyTorch's
// asynchronous tensor parallelism (Wang et al., ASPLOS 2023, doi 10.1145/3567955.3567959).

/// A plan whose tasks are all gathers, or all scattered sums, in as many parts as the smallest group has
/// members. Nothing where a task is something else, or its group is on several nodes.
struct PartedTransfer {
  Collective kind = Collective::AllGather;  ///< or ReduceScatter
  std::int32_t parts = 2;
};
std::optional<PartedTransfer> parted_transfer(const CommunicationPlan& plan, const Topology& topology);

/// The share of the transfer's time in which the product does not run: it hides all parts but one at most.
double share_beside_product(Nanoseconds transfer, Nanoseconds product, std::int32_t parts);

}  // namespace pipesim
