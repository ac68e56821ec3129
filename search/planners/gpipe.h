#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/pipelines/pipelined_strategy.h"

namespace pipesim {

/// Cuts a sequence of costs (at least 0) into `parts` runs, each of one cost or more. The largest sum of a
/// run is as small as can be, and so, within that, is the sum of their squares. Returns the part of each
/// cost, from 0. InputError when there are fewer costs than parts.
std::vector<std::int32_t> balanced_parts(const std::vector<double>& costs, std::int32_t parts);

/// The request for a pipeline of equal groups of devices.
struct PipelineDemand {
  std::int32_t stages = 1;
  std::int32_t chunks = 1;  ///< stages of each group of devices
  std::string schedule = "1f1b";
};

/// GPipe's partition (Huang et al., NeurIPS 2019, section 2.2): layers in order, cut into stages so that the
/// largest stage has as little to compute as possible, on equal runs of the topology's devices. Inside a
/// stage there is data parallelism (data_parallel_stages()). Layers that share a weight count as one, unless
/// data would then have to go back to an earlier stage.
///
/// InputError when the model or the topology can't be cut like this, or when the schedule does not suit.
PipelinedStrategy gpipe_strategy(const OperatorGraph& graph, const CostModel& costs,
                                 const PipelineDemand& demand);

}  // namespace pipesim
