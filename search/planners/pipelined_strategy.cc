#include "search/planners/pipelined_strategy.h"

#include <algorithm>

#include "search/baselines/placement.h"

namespace pipesim {
namespace {

ParallelConfig sample_parallel(const Operator& op, const StageGroup& group) {
  const FactorSplit split = sample_split(op, static_cast<std::int64_t>(group.size()));
  return arranged(op, std::span(&split, 1), group);
}

// Copies are always possible, but do as much work as one device.
bool shares_work(const Operator& op, std::size_t devices) {
  return !sample_factor(op) ||
         sample_split(op, static_cast<std::int64_t>(devices)).factor != ShardGrid::replica_axis;
}

}  // namespace

PipelinedStrategy data_parallel_stages(const OperatorGraph& graph, const Topology& topology,
                                       Pipeline pipeline, const std::vector<StageGroup>& groups) {
  std::vector<StageGroup> used = groups;
  const auto group_of = [&](std::size_t op) -> StageGroup& {
    return used[static_cast<std::size_t>(pipeline.stage_of[op]) % used.size()];
  };
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const Operator& op = graph.operators()[i];
    StageGroup& group = group_of(i);
    const auto fits = [&] {
      return shares_work(op, group.size()) && !illegal(op, sample_parallel(op, group), topology);
    };
    while (group.size() > 1 && !fits()) group.pop_back();
  }
  PipelinedStrategy made{{}, std::move(pipeline)};
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const auto stage = static_cast<std::size_t>(made.pipeline.stage_of[i]);
    made.strategy.push_back(sample_parallel(graph.operators()[i], used[stage % used.size()]));
  }
  return made;
}

}  // namespace pipesim
