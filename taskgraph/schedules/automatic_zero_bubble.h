#pragma once

#include <cstdint>

#include "taskgraph/schedules/schedule.h"

namespace pipesim {

/// Durations of every stage's steps, and of a microbatch's transfer from stage to stage, all in the same
/// arbitrary unit. The steps take at least 1.
struct ZeroBubbleTimes {
  std::int64_t forward = 1, input = 1, weight = 1, transfer = 0;
};

/// The automatic zero-bubble schedule of Qi et al., ICLR 2024, section 3.1 (its heuristic). Devices take
/// steps as soon as they can. No device ever holds more than `shape.number` microbatches, counted from their
/// forward to their weight gradients; the limit is at least 1. Several variants are built: how far forward
/// runs ahead, how late weight gradients come, whether short gaps are left open. The best variant has the
/// shortest maximum over devices of the span from first to last step; among equals, the one that ends first.
PipelineSchedule automatic_zero_bubble(const PipelineShape& shape, const ZeroBubbleTimes& times);

}  // namespace pipesim
