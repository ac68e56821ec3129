#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "models/operator_graph.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// Splits samples over replicas, and the first other factor that allows it over the devices of a replica,
/// like Megatron.
inline ParallelConfig in_both(const Operator& op, std::int32_t first, std::int32_t replicas,
                              std::int32_t parts) {
  ParallelConfig config{std::vector<std::int32_t>(op.factors.size(), 1), 1, {}};
  const auto try_degree = [&](std::size_t factor, std::int32_t degree) {
    config.degrees[factor] = degree;
    if (!illegal_degrees(op, config.degrees)) return true;
    config.degrees[factor] = 1;
    return false;
  };
  std::int32_t parts_done = 1, replicas_done = try_degree(0, replicas) ? replicas : 1;
  for (std::size_t f = 1; f < op.factors.size() && parts_done == 1; ++f)
    if (try_degree(f, parts)) parts_done = parts;
  config.replicas = replicas * parts / (replicas_done * parts_done);
  for (std::int32_t d = 0; d < replicas * parts; ++d) config.devices.emplace_back(first + d);
  return config;
}

/// How many devices a replica has, groups of replicas, and replicas.
struct ReplicaShape {
  std::int32_t tensor, pipeline, data;
};

struct ReplicaPlan {
  Strategy strategy;
  PlanOptions options;
};

/// Makes stages of as many operators each, except that the first has `more` more.
inline ReplicaPlan plan_in_both(const OperatorGraph& graph, const ReplicaShape& shape,
                                const std::string& schedule, std::int32_t more = 0) {
  const auto n = static_cast<std::int32_t>(graph.operators().size());
  const std::int32_t stages = shape.pipeline * (schedule_kind(schedule).takes_chunks ? 2 : 1);
  ReplicaPlan plan;
  plan.options.microbatches = schedule == "dualpipe" ? 2 * shape.pipeline : 4;
  plan.options.pipeline = Pipeline{schedule, {}};
  for (std::int32_t i = 0; i < n; ++i) {
    const std::int32_t stage = std::max(0, i - more) * stages / (n - more);
    plan.options.pipeline->stage_of.push_back(stage);
    const auto group = static_cast<std::int32_t>(device_of_stage(stage, shape.pipeline, lies_in_v(schedule)));
    plan.strategy.push_back(in_both(graph.operators()[static_cast<std::size_t>(i)],
                                    group * shape.tensor * shape.data, shape.data, shape.tensor));
  }
  return plan;
}

inline constexpr const char* kReplicatedGpt =
    "gpt:batch=8,layers=2,hidden=64,heads=4,sequence=16,vocab=128,positions=16";
inline constexpr const char* kReplicatedLlama =
    "llama:batch=8,layers=2,hidden=64,heads=4,kv_heads=4,vocab=64,sequence=16,ffn=64";

}  // namespace pipesim
