#include "search/intra/narrow.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "search/intra/dual_ascent.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// What nodes' strategies and edges' pairs cost above the least of their node or edge, at the prices of a dual
// solution. An answer costs the bound and what is above it at all its nodes and edges, or more.
class ReducedCosts {
 public:
  ReducedCosts(const IntraCore& core, const std::vector<double>& multipliers,
               const std::vector<double>& messages)
      : core_(core), messages_(messages) {
    for (std::size_t r = 0; r < core.rows(); ++r) bound_ -= multipliers[r] * core.capacity[r];
    for (const IntraCore::Node& node : core.nodes) {
      std::vector<double> costs(core.costs.begin() + static_cast<std::ptrdiff_t>(node.first),
                                core.costs.begin() + static_cast<std::ptrdiff_t>(node.first + node.size));
      for (std::size_t x = 0; x < node.size; ++x) {
        for (const IntraCore::Part& part : node.parts) {
          for (std::uint32_t r = part.begin; r < part.end; ++r) costs[x] += multipliers[r] * part.usage[x];
        }
        for (const IntraCore::Side& side : node.sides) costs[x] += messages[side.own + x];
      }
      const double least = std::ranges::min(costs);
      bound_ += least;
      for (double& cost : costs) cost -= least;
      above_.push_back(std::move(costs));
    }
    for (const IntraCore::Node& node : core.nodes) {
      for (const IntraCore::Side& side : node.sides) {
        if (!side.first) continue;
        double least = kNever;
        for (std::size_t y = 0; y < core.nodes[side.other].size; ++y) {
          for (std::size_t x = 0; x < node.size; ++x) least = std::min(least, of_pair(node, side, x, y));
        }
        bound_ += least;
        least_of_edge_[side.edge] = least;
      }
    }
  }

  [[nodiscard]] double bound() const { return bound_; }  ///< without the core's constant
  [[nodiscard]] double above(std::size_t node, std::size_t x) const { return above_[node][x]; }
  /// Returns what a pair and the strategies at its ends cost above the least.
  [[nodiscard]] double above(std::size_t node, const IntraCore::Side& side, std::size_t x,
                             std::size_t y) const {
    return of_pair(core_.nodes[node], side, x, y) - least_of_edge_.at(side.edge) + above_[node][x] +
           above_[side.other][y];
  }

 private:
  [[nodiscard]] double of_pair(const IntraCore::Node& node, const IntraCore::Side& side, std::size_t x,
                               std::size_t y) const {
    return core_.tables[side.table + y * node.size + x] - messages_[side.own + x] -
           messages_[side.others + y];
  }

  const IntraCore& core_;
  const std::vector<double>& messages_;
  double bound_ = 0;
  std::vector<std::vector<double>> above_;         // [node][strategy]
  std::map<std::uint32_t, double> least_of_edge_;  // by its number
};

// Drops strategies that are forbidden. Whether each node has others.
bool drop_forbidden(IntraModel& model) {
  for (std::uint32_t i = 0; i < model.nodes.size(); ++i) {
    std::vector<bool> allowed;
    for (const double cost : model.nodes[i].cost) allowed.push_back(cost < kNever);
    const auto left = std::ranges::count(allowed, true);
    if (left == 0) return false;
    if (left < std::ssize(allowed)) model.keep(i, allowed);
  }
  return true;
}

NarrowedChoices nothing_of(const IntraInstance& instance) {
  NarrowedChoices nothing;
  for (const IntraInstance::Node& node : instance.nodes)
    nothing.strategies.emplace_back(node.cost.size(), false);
  for (const IntraInstance::Edge& edge : instance.edges) nothing.pairs.emplace_back(edge.cost.size(), false);
  return nothing;
}

}  // namespace

NarrowedChoices choices_within(const IntraInstance& instance, WideCost most) {
  constexpr std::size_t kRoundsAtATime = 20, kMostRounds = 100;
  NarrowedChoices within = nothing_of(instance);
  IntraModel model(instance);  // without reductions: these keep one optimum, not all answers
  if (!drop_forbidden(model)) return within;
  const IntraCore core(model);
  const double aim = static_cast<double>(most) - core.constant;
  DualAscent ascent(core);
  for (std::size_t rounds = 0; rounds < kMostRounds && !ascent.stalled(); rounds += kRoundsAtATime) {
    stop_if_late();
    ascent.run(kRoundsAtATime, aim);
  }
  const ReducedCosts reduced(core, ascent.best_multipliers(), ascent.best_messages());
  const double room = aim - reduced.bound() + ascent.messages().rounding(reduced.bound());
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<bool>> pairs;  // by nodes of the instance
  for (std::size_t i = 0; i < core.nodes.size(); ++i) {
    const IntraCore::Node& node = core.nodes[i];
    std::vector<bool> kept(node.size);
    for (std::size_t x = 0; x < node.size; ++x) kept[x] = !(reduced.above(i, x) > room);
    for (const IntraCore::Side& side : node.sides) {
      const IntraCore::Node& other = core.nodes[side.other];
      const std::size_t others = instance.nodes[other.number].cost.size();
      std::vector<bool>& of_edge = pairs[{node.number, other.number}];
      of_edge.assign(instance.nodes[node.number].cost.size() * others, false);
      for (std::size_t x = 0; x < node.size; ++x) {
        bool any = false;
        for (std::size_t y = 0; y < other.size; ++y) {
          if (reduced.above(i, side, x, y) > room) continue;
          of_edge[node.strategy[x] * others + other.strategy[y]] = true;
          any = true;
        }
        kept[x] = kept[x] && any;
      }
    }
    for (std::size_t x = 0; x < node.size; ++x) within.strategies[node.number][node.strategy[x]] = kept[x];
  }
  for (std::size_t e = 0; e < instance.edges.size(); ++e) {
    const IntraInstance::Edge& edge = instance.edges[e];
    const auto known = pairs.find({edge.a, edge.b});  // none of edges of one node with itself
    within.pairs[e] = known == pairs.end() ? std::vector<bool>(edge.cost.size(), true) : known->second;
  }
  return within;
}

}  // namespace pipesim
