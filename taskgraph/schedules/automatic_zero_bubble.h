#pragma once

#include <cstdint>

#include "taskgraph/schedules/schedule.h"

namespace pipesim {

/// How long the steps of every stage take, and how long a microbatch travels from stage to stage, all in one
/// unit of any size. The steps take at least 1.
struct ZeroBubbleTimes {
  std::int64_t forward = 1, input = 1, weight = 1, transfer = 0;
};

/// The automatic zero-bubble schedule of Qi et al., ICLR 2024, section 3.1 (its heuristic): devices take
/// steps as they become possible, none ever holds more than `shape.limit` microbatches (from their forward to
/// their weight gradients), which is at least 1. Built for each of the variants (how far forward runs ahead,
/// how late weight gradients come, whether short gaps are left open), of which the one is kept whose devices
/// have the shortest longest span from their first to their last step; of these the one that ends first.
PipelineSchedule automatic_zero_bubble(const PipelineShape& shape, const ZeroBubbleTimes& times);

}  // namespace pipesim
