#include "taskgraph/plan/plan.h"

#include <fmt/format.h>

namespace pipesim {

std::int64_t samples_per_iteration(const OperatorGraph& graph, const PlanOptions& options) {
  return graph.batch() * options.microbatches;
}

std::optional<std::string> illegal(const OperatorGraph& graph, const Strategy& strategy,
                                   const Topology& topology) {
  if (strategy.size() != graph.operators().size()) {
    return fmt::format("{} configs for {} operators", strategy.size(), graph.operators().size());
  }
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const Operator& op = graph.operators()[i];
    if (auto reason = illegal(op, strategy[i], topology))
      return fmt::format("operator \"{}\": {}", op.name, *reason);
  }
  return std::nullopt;
}

std::optional<std::string> illegal(const OperatorGraph& graph, const Strategy& strategy,
                                   const PlanOptions& options, const Topology& topology) {
  if (auto reason = illegal(graph, strategy, topology)) return reason;
  if (options.pipeline) {
    if (auto reason = illegal(graph, strategy, *options.pipeline, options.microbatches, topology))
      return "pipeline: " + *reason;
  }
  if (auto reason = illegal(graph, options.recompute, options.pipeline)) return "recompute: " + *reason;
  if (auto reason = illegal(options.state_sharding, options.pipeline, options.microbatches))
    return "state sharding: " + *reason;
  if (auto reason = illegal(graph, options.imbalance)) return "imbalance: " + *reason;
  return std::nullopt;
}

}  // namespace pipesim
