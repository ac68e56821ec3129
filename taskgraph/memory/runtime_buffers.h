#pragma once

#include <vector>

#include "taskgraph/memory/memory_changes.h"

namespace pipesim {

/// What a runtime holds for a part of an iteration; or, of negative size, what it frees meanwhile.
struct RuntimeBuffer {
  DeviceId device;
  MemoryCategory category = MemoryCategory::Gradients;
  OperatorId op;  ///< LiveBuffer::op
  Bytes bytes;
  Nanoseconds from = 0, until = 0;
};

/// Lists gradients that stay beside their float32 sums (PlanContents::keeps_own_gradients()) and copies of
/// buckets (Runtime::copies_buckets) in these microbatches.
///
/// The gradients of a weight stay from the begin of its first backward until the device's last update is
/// done, as frameworks zero them in place between microbatches, and free them after the step
/// (deepspeed/runtime/bf16_optimizer.py, clear_lp_grads() and zero_grad()).
///
/// A bucket takes gradients in the order in which they are reduced, until the next one would not fit; one
/// that is larger than a bucket stands for itself. A bucket is copied to be reduced, and the copy is there
/// while the last of its gradients is reduced: under zero1 and zero2 where it holds parts of several copies'
/// state, which lie one behind the other (allreduce_bucket() in deepspeed/runtime/zero/stage_1_and_2.py), and
/// under zero3, where each gradient has parts of all, if it holds several gradients
/// (reduce_scatter_coalesced() in deepspeed/runtime/comm/coalesced_collectives.py).
std::vector<RuntimeBuffer> runtime_buffers(const ExpandedStrategy& expanded, const TaskTimes& times);

/// By device, the buckets that it releases when backward is through, so that they are not there during the
/// step: those of zero1 and zero2 (_release_ipg_buffers() in deepspeed/runtime/zero/stage_1_and_2.py), not
/// the one of zero3, which is made once (stage3.py).
std::vector<Bytes> released_in_steps(const PlanContents& contents, const BoundStrategy& strategy);

/// At most so much of them is there on a device, in all microbatches of the expanded strategy.
std::vector<Bytes> most_of_runtime_buffers(const ExpandedStrategy& expanded);

}  // namespace pipesim
