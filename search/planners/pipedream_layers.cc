#include "search/planners/pipedream_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <set>

#include "search/pipelines/grouped_layers.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

using CutSet = std::vector<bool>;  // by layer: lies before the cut

// Returns how many cuts, one behind the other, take no more than so many steps; at least two.
std::size_t cuts_within(double steps, std::span<const MachineLevel> levels) {
  const auto needed = [&](double cuts) {
    double sum = 0;
    for (std::size_t l = 0; l < levels.size(); ++l) {
      const auto machines = static_cast<double>(levels[l].machines);
      const double rows = l + 1 < levels.size() ? cuts / 3 : 1;
      sum += cuts * cuts / 2 * rows * (1 + machines * (machines - 1) / 2);
    }
    return sum;
  };
  std::size_t low = 2, high = 1'000'000;
  while (low + 1 < high) {
    const std::size_t middle = low + (high - low) / 2;
    (needed(static_cast<double>(middle)) <= steps ? low : high) = middle;
  }
  return low;
}

// An order of the layers: those as they come, the layer that became free last, or first.
enum class NextLayer { First, Newest, Oldest };
std::vector<std::int32_t> order_of(const LayerGraph& graph, NextLayer take) {
  std::vector<std::int32_t> order(graph.size());
  std::iota(order.begin(), order.end(), 0);
  if (take == NextLayer::First) return order;
  order.clear();
  std::vector<std::size_t> unmet;
  std::deque<std::int32_t> free;
  for (std::int32_t v = static_cast<std::int32_t>(graph.size()); v-- > 0;) {
    if (graph.inputs(v).empty() && take == NextLayer::Newest) free.push_back(v);
    if (graph.inputs(v).empty() && take == NextLayer::Oldest) free.push_front(v);
  }
  for (std::int32_t v = 0; v < static_cast<std::int32_t>(graph.size()); ++v)
    unmet.push_back(graph.inputs(v).size());
  while (!free.empty()) {
    const std::int32_t v = take == NextLayer::Newest ? free.back() : free.front();
    take == NextLayer::Newest ? free.pop_back() : free.pop_front();
    order.push_back(v);
    const std::span<const std::int32_t> readers = graph.consumers(v);
    for (std::size_t i = 0; i < readers.size(); ++i) {
      const std::int32_t w = take == NextLayer::Newest ? readers[readers.size() - 1 - i] : readers[i];
      if (--unmet[static_cast<std::size_t>(w)] == 0) free.push_back(w);
    }
  }
  return order;
}

// The cuts that a selection begins with and grows by.
class SomeCuts {
 public:
  SomeCuts(const LayerGraph& layers, GroupedLayers groups) : layers_(layers), groups_(std::move(groups)) {}

  // Those of groups, which may be of groups of `groups_`.
  void add(const std::vector<Cut>& cuts, const std::vector<std::int32_t>& group_of) {
    for (const Cut& cut : cuts) {
      CutSet set;
      for (const std::int32_t group : group_of) set.push_back(cut.before[static_cast<std::size_t>(group)]);
      sets_.insert(std::move(set));
    }
  }
  void add_orders() {
    for (const NextLayer take : {NextLayer::First, NextLayer::Newest, NextLayer::Oldest}) {
      CutSet groups(groups_.graph.size(), false);
      for (const std::int32_t group : order_of(groups_.graph, take)) {
        groups[static_cast<std::size_t>(group)] = true;
        sets_.insert(of_layers(groups));
      }
    }
  }

  // Selects the cut that least data crosses in every span of time, then those of all that least data crosses.
  [[nodiscard]] std::vector<CutSet> selected(std::size_t most) const {
    if (sets_.size() <= most) return {sets_.begin(), sets_.end()};
    struct Candidate {
      const CutSet* set;
      Bytes crossing;
      double time;
    };
    std::vector<Candidate> all;
    for (const CutSet& set : sets_) all.push_back({&set, crossing(set), time_of(set)});
    std::ranges::stable_sort(all, {}, &Candidate::time);
    std::vector<std::size_t> order(all.size()), chosen{all.size() - 1};
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return all[i].crossing; });
    std::vector<bool> taken(all.size(), false);
    taken.back() = true;
    const std::size_t spans = std::max<std::size_t>(1, most / 2);
    std::vector<bool> filled(spans + 1, false);
    const double whole = all.back().time;
    for (const bool anywhere : {false, true}) {
      for (const std::size_t i : order) {
        if (chosen.size() >= most || taken[i]) continue;
        const double share = whole > 0 ? all[i].time / whole : 0;
        const auto span = static_cast<std::size_t>(share * static_cast<double>(spans));
        if (!anywhere && filled[span]) continue;
        filled[span] = true;
        taken[i] = true;
        chosen.push_back(i);
      }
    }
    std::vector<CutSet> sets;
    for (const std::size_t i : chosen) sets.push_back(*all[i].set);
    return sets;
  }

  // Returns the cuts between stages, and about so many around them. Half of these have one group more or less
  // at a time; the others are as far through the model.
  [[nodiscard]] std::vector<CutSet> around(const std::vector<PipelineStage>& stages, std::size_t most) const {
    std::set<CutSet> between;
    CutSet before(layers_.size(), false);
    for (const PipelineStage& stage : stages) {
      for (const std::int32_t layer : stage.layers) before[static_cast<std::size_t>(layer)] = true;
      between.insert(before);
    }
    const std::size_t each = std::max<std::size_t>(4, most / (2 * between.size()));
    std::set<CutSet> found;
    for (const CutSet& cut : between) {
      if (std::ranges::find(cut, false) == cut.end()) {
        found.insert(cut);
        continue;
      }
      add_neighbours(cut, each, found);
      add_as_far(cut, each, found);
    }
    return {found.begin(), found.end()};
  }

 private:
  [[nodiscard]] CutSet of_layers(const CutSet& groups) const {
    CutSet set;
    for (const std::int32_t group : groups_.group_of) set.push_back(groups[static_cast<std::size_t>(group)]);
    return set;
  }
  [[nodiscard]] CutSet of_groups(const CutSet& layers) const {
    CutSet set(groups_.graph.size(), false);
    for (std::size_t l = 0; l < layers.size(); ++l)
      if (layers[l]) set[static_cast<std::size_t>(groups_.group_of[l])] = true;
    return set;
  }
  // The first group stays before it.
  [[nodiscard]] bool may_change(const CutSet& set, std::int32_t group) const {
    const auto has = [&](std::int32_t g) -> bool { return set[static_cast<std::size_t>(g)]; };
    if (has(group)) return group > 0 && std::ranges::none_of(groups_.graph.consumers(group), has);
    return std::ranges::all_of(groups_.graph.inputs(group), has);
  }
  void add_neighbours(const CutSet& cut, std::size_t most, std::set<CutSet>& found) const {
    std::deque<CutSet> reached{of_groups(cut)};
    std::set<CutSet> known{reached.front()};
    while (!reached.empty()) {
      const CutSet at = std::move(reached.front());
      reached.pop_front();
      found.insert(of_layers(at));
      for (std::int32_t g = 0; g < static_cast<std::int32_t>(at.size()) && known.size() < most; ++g) {
        if (!may_change(at, g)) continue;
        CutSet next = at;
        next[static_cast<std::size_t>(g)] = !next[static_cast<std::size_t>(g)];
        if (known.insert(next).second) reached.push_back(std::move(next));
      }
    }
  }
  [[nodiscard]] Bytes crossing(const CutSet& set) const {
    Bytes bytes;
    for (std::int32_t l = 0; l < static_cast<std::int32_t>(set.size()); ++l) {
      const auto is_behind = [&](std::int32_t reader) -> bool {
        return !set[static_cast<std::size_t>(reader)];
      };
      if (set[static_cast<std::size_t>(l)] && std::ranges::any_of(layers_.consumers(l), is_behind))
        bytes += layers_[l].output;
    }
    return bytes;
  }
  [[nodiscard]] double time_of(const CutSet& set) const {
    double seconds = 0;
    for (std::size_t l = 0; l < set.size(); ++l) {
      const Layer& layer = layers_[static_cast<std::int32_t>(l)];
      if (set[l]) seconds += (layer.forward + layer.backward).value;
    }
    return seconds;
  }
  void add_as_far(const CutSet& cut, std::size_t most, std::set<CutSet>& found) const {
    if (by_time_.empty()) {
      for (const CutSet& set : sets_) by_time_.emplace_back(time_of(set), &set);
      std::ranges::stable_sort(by_time_, {}, &std::pair<double, const CutSet*>::first);
    }
    const auto at =
        std::ranges::lower_bound(by_time_, time_of(cut), {}, &std::pair<double, const CutSet*>::first);
    const auto before =
        std::min<std::ptrdiff_t>(at - by_time_.begin(), static_cast<std::ptrdiff_t>(most / 2));
    const auto behind = std::min<std::ptrdiff_t>(by_time_.end() - at, static_cast<std::ptrdiff_t>(most / 2));
    for (auto i = at - before; i != at + behind; ++i) found.insert(*i->second);
  }

  const LayerGraph& layers_;
  GroupedLayers groups_;
  std::set<CutSet> sets_;
  mutable std::vector<std::pair<double, const CutSet*>> by_time_;
};

}  // namespace

PipeDreamOfLayers pipedream_of_layers(const LayerGraph& layers,
                                      const std::vector<std::vector<std::int32_t>>& together,
                                      std::span<const MachineLevel> levels, const PipeDreamOptions& options,
                                      const PipeDreamEffort& effort) {
  PipeDreamOfLayers made;
  std::optional<std::vector<Cut>> all = cuts_of(layers, effort.most_cuts);
  if (all && !together.empty()) all = cuts_around(*all, together);
  GroupedLayers groups = kept_together(layers, together);
  if (!all && !together.empty()) {
    if (const auto cuts = cuts_of(groups.graph, effort.most_cuts)) {
      std::vector<std::vector<bool>> sets;
      for (const Cut& cut : *cuts) {
        sets.emplace_back();
        for (const std::int32_t group : groups.group_of)
          sets.back().push_back(cut.before[static_cast<std::size_t>(group)]);
      }
      all = cuts_behind(layers, std::move(sets));
    }
  }
  if (all && pipedream_steps(*all, levels) <= effort.most_steps) {
    made.cuts = all->size();
    made.steps = pipedream_steps(*all, levels);
    made.plan = pipedream(*all, levels, options);
    return made;
  }

  made.all = false;
  SomeCuts some(layers, groups);
  std::vector<std::int32_t> own(layers.size());
  std::iota(own.begin(), own.end(), 0);
  if (all) {
    some.add(*all, own);
    made.chosen = fmt::format("all {} cuts of the model take too long", all->size());
  } else {
    const GroupedLayers compressed = grouped(groups, compressed_branches(groups.graph));
    const std::optional<std::vector<Cut>> cuts = cuts_of(compressed.graph, effort.most_cuts);
    if (cuts) some.add(*cuts, compressed.group_of);
    some.add_orders();
    made.chosen = fmt::format("the model can be cut in more than {} ways", effort.most_cuts);
    if (cuts) made.chosen += fmt::format(", with branches compressed in {}", cuts->size());
  }
  std::set<CutSet> looked_at;
  const std::size_t most = std::min(effort.most_round_cuts, cuts_within(effort.most_round_steps, levels));
  std::vector<CutSet> sets = some.selected(most);
  for (std::int32_t round = 0; round < effort.most_rounds; ++round) {
    looked_at.insert(sets.begin(), sets.end());
    const std::vector<Cut> cuts = cuts_behind(layers, std::move(sets));
    std::optional<PipeDreamPlan> found;
    try {
      found = pipedream(cuts, levels, options);
    } catch (const OutOfTime&) {
      if (!made.plan) throw;
      break;
    }
    made.steps += pipedream_steps(cuts, levels);
    const bool better = found && (!made.plan || found->period < made.plan->period);
    if (better) made.plan = std::move(found);
    if (!better) break;
    sets = some.around(made.plan->stages, most);
  }
  made.cuts = looked_at.size();
  made.chosen += fmt::format(
      "; {} cuts were looked at, first those that little crosses, then those around the "
      "plan's",
      made.cuts);
  return made;
}

}  // namespace pipesim
