#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "search/additive/additive_costs.h"
#include "sim/base/deadline.h"

namespace pipesim {

void AdditiveCosts::list_kinds_of_lists() {
  const CandidateSet& candidates = space_.candidates();
  for (std::size_t size = 0; size < candidates.num_sizes(); ++size) {
    nodes_of_list_.emplace_back();
    for (std::size_t l = 0; l < candidates.num_lists(size); ++l) {
      std::set<std::int32_t> nodes;
      for (const DeviceId d : candidates.list(size, l).devices)
        nodes.insert(evaluator_.topology().device(d).node);
      nodes_of_list_.back().push_back(nodes.size());
    }
  }
}

// So that bounding all pairs and eliminating units stays short.
std::size_t AdditiveCosts::most_choices() const {
  constexpr double kPairs = 40'000;  // of 64 devices
  constexpr double kEliminated = 4'000'000;
  constexpr double kFewest = 8, kMost = 48;
  const auto apart = std::ranges::count_if(flows_, [](const Flow& f) { return f.from != f.to; });
  const double devices = static_cast<double>(evaluator_.topology().num_devices());
  const double pairs = std::sqrt(kPairs * 64 / devices / static_cast<double>(apart + 1));
  const double triples = std::cbrt(kEliminated / static_cast<double>(units_.size()));
  return static_cast<std::size_t>(std::clamp(std::min(pairs, triples), kFewest, kMost));
}

// The largest shard's passes, without binding the config.
double AdditiveCosts::estimate(OperatorId op, const ParallelConfig& config) const {
  const OperatorGraph& graph = evaluator_.graph();
  std::vector<Range> ranges;
  ShardGrid(graph.op(op), config).ranges(0, ranges);
  double sum = 0;
  for (const Pass pass : {Pass::Forward, Pass::BackwardInput})
    sum += evaluator_.costs().operator_time(graph, graph.op(op), pass, ranges, config.devices.front()).value;
  return sum;
}

// On the first list of each size and number of nodes.
std::vector<std::size_t> AdditiveCosts::fastest(OperatorId op, std::size_t most) const {
  const CandidateSet& candidates = space_.candidates();
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t size = 0; size < candidates.num_sizes(); ++size) {
    const std::vector<std::size_t>& nodes = nodes_of_list_[size];
    for (std::size_t l = 0; l < nodes.size(); ++l) {
      if (std::ranges::find(nodes, nodes[l]) != nodes.begin() + static_cast<std::ptrdiff_t>(l)) continue;
      for (std::size_t s = 0; s < candidates.num_splits(op, size); ++s) {
        const std::size_t config = candidates.index(op, {size, l, s});
        stop_if_late();
        ranked.emplace_back(estimate(op, space_.config(op, config)), config);
      }
    }
  }
  std::ranges::sort(ranked);
  std::vector<std::size_t> configs;
  for (std::size_t i = 0; i < std::min(most, ranked.size()); ++i) configs.push_back(ranked[i].second);
  return configs;
}

void AdditiveCosts::choose(std::size_t unit, std::size_t most,
                           const std::vector<std::vector<std::size_t>>& starts) {
  constexpr std::size_t kLookedAt = 3;  // times as many as are chosen
  Unit& mine = units_[unit];
  const OperatorId op = mine.operators.front();
  std::vector<std::pair<double, Choice>> ranked;
  std::set<std::size_t> seen;
  for (const std::vector<std::size_t>& start : starts) {
    const std::size_t config = start[op.index()];
    if (config < space_.size(op) && seen.insert(config).second)
      ranked.emplace_back(0, choice_of(unit, config));
  }
  most = std::max(most, ranked.size());
  for (const std::size_t config : fastest(op, kLookedAt * most)) {
    if (!seen.insert(config).second) continue;
    stop_if_late();
    Choice choice = choice_of(unit, config);
    const double cost = cost_alone(unit, choice);
    ranked.emplace_back(cost, std::move(choice));
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& r) { return r.first; });
  if (ranked.size() > most) ranked.erase(ranked.begin() + static_cast<std::ptrdiff_t>(most), ranked.end());
  for (auto& [cost, choice] : ranked) {
    choice.load = load(unit, choice.config);
    mine.choices.push_back(std::move(choice));
  }
}

}  // namespace pipesim
