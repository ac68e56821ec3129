#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/zoo/zoo.h"
#include "search/exhaustive/exhaustive.h"
#include "search/mcmc/mcmc.h"
#include "topologies/presets/presets.h"

namespace pipesim {

/// A model on a topology, with all that searches need.
struct SearchCase {
  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  CandidateSet candidates{graph, topology};

  SearchCase(OperatorGraph model, Topology system) : graph(std::move(model)), topology(std::move(system)) {}
  SearchCase(OperatorGraph model, const std::string& system)
      : SearchCase(std::move(model), make_topology(system)) {}
  SearchCase(const std::string& model, Topology system)
      : SearchCase(make_zoo_model(model), std::move(system)) {}
  SearchCase(const std::string& model, const std::string& system)
      : SearchCase(model, make_topology(system)) {}
  SearchCase(const SearchCase&) = delete;
  SearchCase& operator=(const SearchCase&) = delete;

  /// Everything on device 0: a start that gives no answer away.
  [[nodiscard]] SearchStart single() const {
    Strategy strategy;
    for (const Operator& op : graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
    return {"single-device", strategy};
  }
  /// Chains find what they find by themselves, unless additive starts are asked for.
  [[nodiscard]] SearchOutcome mcmc(std::int64_t proposals, std::uint64_t seed, int threads = 1,
                                   bool additive_starts = false) const {
    McmcOptions options;
    options.budget.proposals = proposals;
    options.seed = seed;
    options.threads = threads;
    options.additive_starts = additive_starts;
    return pipesim::mcmc(graph, costs, {}, candidates, {single()}, options, {});
  }
  [[nodiscard]] SearchOutcome exhaustive(const std::vector<SearchStart>& starts = {},
                                         const SearchBudget& budget = {}) const {
    return pipesim::exhaustive(graph, costs, {}, candidates, starts, budget, {});
  }
};

}  // namespace pipesim
