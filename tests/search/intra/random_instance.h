#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "search/additive/pair_usages.h"
#include "search/intra/check_answer.h"
#include "search/intra/instance.h"
#include "sim/base/rng.h"

namespace pipesim {

/// Makes an instance with few and small costs, so that many are equal; some costs forbid a choice.
inline IntraInstance random_instance(Rng& rng, std::size_t most_nodes, std::size_t most_strategies) {
  IntraInstance instance;
  const std::size_t nodes = 1 + rng.below(most_nodes);
  const bool with_usage = rng.below(4) > 0;
  const std::uint64_t range = rng.below(2) == 0 ? 5 : 1000;
  const std::uint64_t forbids = rng.below(5);  // in 20
  const auto cost = [&] {
    return rng.below(20) < forbids ? kForbidden : static_cast<std::int64_t>(rng.below(range)) - 2;
  };
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < nodes; ++i) {
    IntraInstance::Node node;
    node.begin = rng.between(0, 6);
    node.end = node.begin + rng.between(0, 5);
    const std::size_t strategies = 1 + rng.below(most_strategies);
    for (std::size_t s = 0; s < strategies; ++s) {
      node.cost.push_back(cost());
      node.usage.push_back(with_usage ? rng.between(0, 9) : 0);
    }
    sum += node.usage[0];
    instance.nodes.push_back(std::move(node));
  }
  const std::size_t edges = nodes > 1 ? rng.below(3 * nodes) : 0;
  for (std::size_t e = 0; e < edges; ++e) {
    IntraInstance::Edge edge{
        static_cast<std::uint32_t>(rng.below(nodes)), static_cast<std::uint32_t>(rng.below(nodes)), {}};
    const std::size_t rows = instance.nodes[edge.a].cost.size();
    const std::size_t columns = instance.nodes[edge.b].cost.size();
    // Some edges allow one strategy beside each of the other node's, as aliases do.
    const bool alias = rng.below(4) == 0;
    for (std::size_t c = 0; c < rows * columns; ++c)
      edge.cost.push_back(alias ? (c % columns == c / columns % columns ? 0 : kForbidden) : cost());
    instance.edges.push_back(std::move(edge));
  }
  instance.limit = rng.between(0, std::max<std::int64_t>(sum, 4));
  // Most limits are those that some choice just keeps.
  if (rng.below(3) > 0) {
    IntraAnswer some;
    for (const IntraInstance::Node& node : instance.nodes)
      some.push_back(static_cast<std::uint32_t>(rng.below(node.cost.size())));
    instance.limit = check_answer(instance, some).most_used + rng.between(0, 2);
  }
  // Differences of 1 count among large usages.
  if (rng.below(4) == 0) {
    constexpr std::int64_t kScale = 100'000'000'000;
    for (IntraInstance::Node& node : instance.nodes) {
      for (std::int64_t& u : node.usage) u *= kScale;
    }
    instance.limit = std::max<std::int64_t>(0, instance.limit * kScale - rng.between(0, 1));
  }
  return instance;
}

/// Calls visit(answer) for all answers of the first so many nodes.
template <class Visit>
void visit_answers(const IntraInstance& instance, std::size_t nodes, Visit visit) {
  IntraAnswer answer(nodes, 0);
  for (bool more = true; more;) {
    visit(answer);
    more = false;
    for (std::size_t i = 0; i < nodes && !more; ++i) {
      more = ++answer[i] < instance.nodes[i].cost.size();
      if (!more) answer[i] = 0;
    }
  }
}

/// The number of what the answer has at an edge, in IntraInstance::Edge::cost.
inline std::size_t pair_of(const IntraInstance& instance, const IntraInstance::Edge& edge,
                           const IntraAnswer& answer) {
  return answer[edge.a] * instance.nodes[edge.b].cost.size() + answer[edge.b];
}

/// Looks at all answers. None where all of them break a rule.
inline std::optional<WideCost> least_cost(const IntraInstance& instance) {
  std::optional<WideCost> least;
  visit_answers(instance, instance.nodes.size(), [&](const IntraAnswer& answer) {
    const CheckedAnswer checked = check_answer(instance, answer);
    if (checked.feasible() && (!least || checked.cost < *least)) least = checked.cost;
  });
  return least;
}
inline std::optional<WideCost> least_cost(const PairUsages& pairs) {
  std::optional<WideCost> least;
  visit_answers(pairs.instance(), pairs.nodes(), [&](const IntraAnswer& answer) {
    const CheckedAnswer checked = check_answer(pairs.instance(), pairs.extended(answer));
    if (checked.feasible() && (!least || checked.cost < *least)) least = checked.cost;
  });
  return least;
}

}  // namespace pipesim
