#include "search/pipelines/cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/dynamic_bitset.hpp>
#include <map>
#include <numeric>
#include <set>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using Set = boost::dynamic_bitset<>;
using Antichain = std::vector<std::int32_t>;  // ascending

template <class Do>
void for_each(const Set& set, Do run) {
  for (std::size_t i = set.find_first(); i != Set::npos; i = set.find_next(i))
    run(static_cast<std::int32_t>(i));
}

Antichain members_of(const Set& set) {
  Antichain members;
  for_each(set, [&](std::int32_t v) { members.push_back(v); });
  return members;
}

class Antichains {
 public:
  explicit Antichains(const LayerGraph& graph) : graph_(graph) {
    const std::size_t n = graph.size();
    upstream_.assign(n, Set(n));
    downstream_.assign(n, Set(n));
    for (std::size_t v = 0; v < n; ++v) {
      for (const std::int32_t u : graph.inputs(static_cast<std::int32_t>(v)))
        (upstream_[v] |= upstream_[static_cast<std::size_t>(u)]).set(static_cast<std::size_t>(u));
    }
    for (std::size_t v = n; v-- > 0;) {
      for (const std::int32_t w : graph.consumers(static_cast<std::int32_t>(v)))
        (downstream_[v] |= downstream_[static_cast<std::size_t>(w)]).set(static_cast<std::size_t>(w));
    }
    for (std::size_t v = 0; v < n; ++v) open_.push_back(open_upstream(v));
  }

  // Whose outputs are needed behind the cut.
  [[nodiscard]] Set open(const Antichain& antichain) const {
    Set set(graph_.size());
    for (const std::int32_t v : antichain) (set |= open_[static_cast<std::size_t>(v)]).set(index(v));
    return set;
  }

  [[nodiscard]] Set before(const Set& open) const {
    Set set = open;
    for_each(open, [&](std::int32_t v) { set |= upstream_[index(v)]; });
    return set;
  }

  // One layer further.
  template <class Visit>
  void for_each_next(const Antichain& antichain, const Set& open, Visit visit) const {
    for_each(open, [&](std::int32_t u) {
      for (const std::int32_t v : graph_.consumers(u)) {
        if (std::ranges::binary_search(antichain, v) || downstream_[index(v)].intersects(open)) continue;
        Set next = open;
        next.reset(index(u));
        next.set(index(v));
        Antichain members;
        for_each(next, [&](std::int32_t w) {
          if (!downstream_[index(w)].intersects(next)) members.push_back(w);
        });
        visit(std::move(members));
      }
    });
  }

 private:
  static std::size_t index(std::int32_t v) { return static_cast<std::size_t>(v); }

  // Layers before v that feed some layer which is not.
  [[nodiscard]] Set open_upstream(std::size_t v) const {
    Set within = upstream_[v];
    within.set(v);
    Set set(graph_.size());
    for_each(upstream_[v], [&](std::int32_t u) {
      const auto outside = [&](std::int32_t w) { return !within.test(index(w)); };
      if (std::ranges::any_of(graph_.consumers(u), outside)) set.set(index(u));
    });
    return set;
  }

  const LayerGraph& graph_;
  std::vector<Set> upstream_, downstream_;  // per layer, without it
  std::vector<Set> open_;
};

Cut cut_at(const LayerGraph& graph, const Set& before) {
  Cut cut;
  cut.before.resize(graph.size());
  const auto is_behind = [&](std::int32_t w) { return !before.test(static_cast<std::size_t>(w)); };
  for_each(before, [&](std::int32_t v) {
    cut.before[static_cast<std::size_t>(v)] = true;
    cut.time += graph[v].forward + graph[v].backward;
    cut.outputs += graph[v].output;
    cut.parameters += graph[v].parameters;
    const std::span<const std::int32_t> consumers = graph.consumers(v);
    if (consumers.empty() || std::ranges::any_of(consumers, is_behind)) cut.crossing += graph[v].output;
  });
  return cut;
}

struct Found {
  Antichain antichain;
  Set before;
  Cut cut;
  std::vector<std::size_t> next;
};

// In an order of growing sets; each knows all that leads to it.
std::vector<Cut> in_order(std::vector<Found>& found) {
  std::vector<std::size_t> order(found.size()), number(found.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return found[i].before.count(); });
  for (std::size_t k = 0; k < order.size(); ++k) number[order[k]] = k;
  std::vector<Set> inner(found.size(), Set(found.size()));
  for (std::size_t k = 0; k < order.size(); ++k) {
    for (const std::size_t next : found[order[k]].next) (inner[number[next]] |= inner[k]).set(k);
  }
  std::vector<Cut> cuts;
  for (std::size_t k = 0; k < order.size(); ++k) {
    cuts.push_back(std::move(found[order[k]].cut));
    for_each(inner[k], [&](std::int32_t i) { cuts.back().inner.push_back(i); });
  }
  return cuts;
}

}  // namespace

std::optional<std::vector<Cut>> cuts_of(const LayerGraph& graph, std::size_t most) {
  if (graph.size() == 0) return std::vector<Cut>();
  const Antichains antichains(graph);
  std::vector<Found> found;
  std::map<Antichain, std::size_t> numbers;
  const auto number_of = [&](Antichain antichain) {
    const auto [at, is_new] = numbers.try_emplace(std::move(antichain), found.size());
    if (is_new) found.push_back({at->first, {}, {}, {}});
    return at->second;
  };
  number_of({0});
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found.size() > most) return std::nullopt;
    stop_if_late();
    const Antichain antichain = found[i].antichain;
    const Set open = antichains.open(antichain);
    found[i].before = antichains.before(open);
    found[i].cut = cut_at(graph, found[i].before);
    for_each(open, [&](std::int32_t v) { found[i].cut.augmented += graph[v].output; });
    antichains.for_each_next(antichain, open, [&](Antichain next) {
      const std::size_t number = number_of(std::move(next));
      found[i].next.push_back(number);
    });
  }
  std::vector<Cut> cuts = in_order(found);
  const std::vector<bool>& all = cuts.back().before;
  const auto left_out = std::ranges::find(all, false) - all.begin();
  if (left_out != std::ssize(all))
    throw InputError(fmt::format("layer \"{}\" has nothing to do with layer \"{}\": no pipeline of both",
                                 graph[static_cast<std::int32_t>(left_out)].name, graph[0].name));
  return cuts;
}

std::vector<Cut> cuts_of_order(const LayerGraph& graph) {
  const Antichains antichains(graph);
  std::vector<Cut> cuts;
  Set before(graph.size()), last(graph.size());  // last: those that feed none before the cut
  for (std::size_t v = 0; v < graph.size(); ++v) {
    before.set(v);
    last.set(v);
    for (const std::int32_t u : graph.inputs(static_cast<std::int32_t>(v)))
      last.reset(static_cast<std::size_t>(u));
    cuts.push_back(cut_at(graph, before));
    for_each(antichains.open(members_of(last)),
             [&](std::int32_t u) { cuts.back().augmented += graph[u].output; });
    cuts.back().inner.resize(v);
    std::iota(cuts.back().inner.begin(), cuts.back().inner.end(), 0);
  }
  return cuts;
}

std::vector<Cut> cuts_behind(const LayerGraph& graph, std::vector<std::vector<bool>> sets) {
  std::ranges::stable_sort(sets, {},
                           [](const std::vector<bool>& set) { return std::ranges::count(set, true); });
  const Antichains antichains(graph);
  std::vector<Cut> cuts;
  std::vector<Set> all;
  std::set<Set> known;
  for (const std::vector<bool>& set : sets) {
    Set before(graph.size());
    for (std::size_t v = 0; v < set.size(); ++v) before[v] = set[v];
    if (!known.insert(before).second) continue;
    Set last = before;
    for_each(before, [&](std::int32_t v) {
      for (const std::int32_t u : graph.inputs(v)) last.reset(static_cast<std::size_t>(u));
    });
    cuts.push_back(cut_at(graph, before));
    for_each(antichains.open(members_of(last)),
             [&](std::int32_t u) { cuts.back().augmented += graph[u].output; });
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].is_subset_of(before)) cuts.back().inner.push_back(static_cast<std::int32_t>(i));
    }
    all.push_back(std::move(before));
  }
  return cuts;
}

std::vector<Cut> cuts_around(const std::vector<Cut>& cuts,
                             const std::vector<std::vector<std::int32_t>>& together) {
  std::vector<std::int32_t> number;  // by cut: among those that stay, or −1
  std::vector<Cut> stay;
  for (const Cut& cut : cuts) {
    const auto before = [&](std::int32_t layer) { return cut.before[static_cast<std::size_t>(layer)]; };
    const bool parts = std::ranges::any_of(together, [&](const std::vector<std::int32_t>& layers) {
      return std::ranges::any_of(layers, [&](std::int32_t l) { return before(l) != before(layers.front()); });
    });
    number.push_back(parts ? -1 : static_cast<std::int32_t>(stay.size()));
    if (parts) continue;
    stay.push_back(cut);
    std::vector<std::int32_t>& inner = stay.back().inner;
    for (std::int32_t& i : inner) i = number[static_cast<std::size_t>(i)];
    std::erase(inner, -1);
  }
  return stay;
}

}  // namespace pipesim
