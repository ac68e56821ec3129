#pragma once

#include <memory>

#include "executor/gpu/activity/activity_collector.h"

namespace pipesim {

/// Returns a collector that uses CUPTI's Activity API (CUPTI documentation, "CUPTI Activity API").
///
/// Plans must not run as captured CUDA graphs while it collects: before 13.1 Update 1 CUPTI gives launches of
/// graphs wrong correlation ids in all sessions but the first (CUPTI release notes), and all kernels of a
/// launch would belong to whatever task launched the graph.
std::unique_ptr<ActivityCollector> make_activity_collector();

}  // namespace pipesim
