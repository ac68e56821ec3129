#include "search/lower_bound/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "search/lower_bound/chain_bound.h"
#include "search/lower_bound/passes.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr Pass kComputePasses[] = {Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight};

// Costs of one pass, or one operator's update, by kind of device.
using CostByKind = std::vector<PassCost>;

std::vector<CostByKind> all_costs(const PassBounds& passes, const PlanOptions& options) {
  const OperatorGraph& graph = passes.graph();
  std::vector<CostByKind> costs;
  const std::vector<TrainedWeights> trained = trained_weights(graph);
  const Recomputation recomputation(graph, options.recompute, options.pipeline);
  const auto add_pass = [&](const Operator& op, Pass pass) {
    costs.emplace_back();
    for (const DeviceId kind : passes.kinds()) {
      const PassCost once = passes.total(op, pass, kind);
      costs.back().push_back({once.overhead * options.microbatches, once.work * options.microbatches});
    }
  };
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    stop_if_late();
    for (const Pass pass : kComputePasses) add_pass(graph.operators()[i], pass);
    if (recomputation.again(OperatorId(i))) add_pass(graph.operators()[i], Pass::Forward);
    if (trained[i].owned.empty()) continue;
    UpdatedWeights updated = no_weights_like(graph, options, trained[i].owned.front());
    for (const TensorId w : trained[i].owned)
      add_part(graph, options, w, graph.tensor(w).elements(), updated);
    costs.emplace_back();
    for (const DeviceId kind : passes.kinds())
      costs.back().push_back({0, passes.costs().update_time(updated, kind).value});
  }
  return costs;
}

// Inverse to each kind's time for everything; all devices' prices add up to 1.
std::vector<double> prices(const PassBounds& passes, const std::vector<CostByKind>& costs) {
  std::vector<double> result;
  double sum = 0;
  for (std::size_t k = 0; k < passes.kinds().size(); ++k) {
    double seconds = 1e-12;
    for (const CostByKind& c : costs) seconds += c[k].overhead + c[k].work;
    result.push_back(1 / seconds);
    sum += result.back() * static_cast<double>(passes.devices_of_kind()[k]);
  }
  for (double& p : result) p /= sum;
  return result;
}

Nanoseconds work_bound(const PassBounds& passes, const PlanOptions& options) {
  const std::vector<CostByKind> costs = all_costs(passes, options);
  const std::vector<double> price = prices(passes, costs);
  double seconds = 0;
  for (const CostByKind& c : costs) {
    double overhead = INFINITY, work = INFINITY;
    for (std::size_t k = 0; k < price.size(); ++k) {
      overhead = std::min(overhead, price[k] * c[k].overhead);
      work = std::min(work, price[k] * c[k].work);
    }
    seconds += overhead + work;
  }
  // A device has at most one shard of each in a microbatch, and a task is rounded by at most half a
  // nanosecond.
  const auto rounding = static_cast<Nanoseconds>(costs.size()) * options.microbatches;
  return std::max<Nanoseconds>(0, rounded_down(seconds) - rounding);
}

}  // namespace

LowerBound lower_bound_parts(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options) {
  const PassBounds passes(graph, costs);
  const ChainBounds chains(passes, options);
  return {work_bound(passes, options), chains.longest(), chains.longest_crossing()};
}

}  // namespace pipesim
