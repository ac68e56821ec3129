#include "search/intra/elimination.h"

#include <algorithm>
#include <set>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// A function of some nodes; the last one's strategy changes fastest.
struct JoinedTable {
  std::vector<std::uint32_t> scope;  // ascending
  std::vector<double> cost;
};

struct EliminatedNode {
  std::uint32_t node = 0;
  std::vector<std::uint32_t> scope, best;
};

class BucketElimination {
 public:
  BucketElimination(const IntraCore& core, std::size_t largest)
      : core_(core), largest_(largest), near_(core.nodes.size()), tables_of_(core.nodes.size()) {
    for (std::uint32_t i = 0; i < core.nodes.size(); ++i) {
      const IntraCore::Node& node = core.nodes[i];
      const auto first = core.costs.begin() + static_cast<std::ptrdiff_t>(node.first);
      add({{i}, {first, first + node.size}});
      for (const IntraCore::Side& side : node.sides) {
        near_[i].insert(side.other);
        if (i > side.other) {
          const auto table = core.tables.begin() + static_cast<std::ptrdiff_t>(side.table);
          add({{side.other, i}, {table, table + core.nodes[side.other].size * node.size}});
        }
      }
    }
  }

  std::optional<std::vector<std::uint32_t>> run() {
    std::set<std::pair<std::size_t, std::uint32_t>> queue;
    std::vector<std::size_t> entries(core_.nodes.size());
    for (std::uint32_t i = 0; i < core_.nodes.size(); ++i) queue.emplace(entries[i] = joint_entries(i), i);
    while (!queue.empty()) {
      stop_if_late();
      const auto [size, node] = *queue.begin();
      if (size > largest_) return std::nullopt;
      queue.erase(queue.begin());
      const std::vector<std::uint32_t> touched(near_[node].begin(), near_[node].end());
      eliminate_one(node);
      for (const std::uint32_t i : touched) {
        queue.erase({entries[i], i});
        queue.emplace(entries[i] = joint_entries(i), i);
      }
    }
    std::vector<std::uint32_t> choice(core_.nodes.size(), 0);
    for (auto gone = eliminated_.rbegin(); gone != eliminated_.rend(); ++gone) {
      std::size_t at = 0;
      for (const std::uint32_t i : gone->scope) at = at * core_.nodes[i].size + choice[i];
      choice[gone->node] = gone->best[at];
    }
    return choice;
  }

 private:
  void add(JoinedTable table) {
    for (const std::uint32_t i : table.scope) tables_of_[i].push_back(tables_.size());
    tables_.push_back(std::move(table));
  }

  [[nodiscard]] std::size_t joint_entries(std::uint32_t node) const {
    std::size_t entries = core_.nodes[node].size;
    for (const std::uint32_t i : near_[node]) {
      if (entries > largest_) break;
      entries *= core_.nodes[i].size;
    }
    return entries;
  }

  void eliminate_one(std::uint32_t node) {
    const std::size_t own = core_.nodes[node].size;
    EliminatedNode gone{node, {near_[node].begin(), near_[node].end()}, {}};
    const std::vector<std::uint32_t>& scope = gone.scope;
    std::size_t entries = 1;
    for (const std::uint32_t i : scope) entries *= core_.nodes[i].size;
    // For each table that has the node: how far a step of each of the scope, and of the node, goes in it.
    struct Walk {
      const double* cost;
      std::size_t step;
      std::vector<std::size_t> steps;
      std::size_t at = 0;
    };
    std::vector<Walk> walks;
    for (const std::size_t t : tables_of_[node]) {
      if (tables_[t].cost.empty()) continue;
      Walk walk{tables_[t].cost.data(), 0, std::vector<std::size_t>(scope.size(), 0)};
      std::size_t stride = 1;
      for (std::size_t k = tables_[t].scope.size(); k-- > 0;) {
        const std::uint32_t i = tables_[t].scope[k];
        if (i == node) {
          walk.step = stride;
        } else {
          walk.steps[static_cast<std::size_t>(std::ranges::lower_bound(scope, i) - scope.begin())] = stride;
        }
        stride *= core_.nodes[i].size;
      }
      walks.push_back(std::move(walk));
    }
    JoinedTable out{scope, std::vector<double>(entries)};
    gone.best.resize(entries);
    std::vector<std::uint32_t> at(scope.size(), 0);
    for (std::size_t e = 0; e < entries; ++e) {
      double least = kNever;
      for (std::size_t x = 0; x < own; ++x) {
        double sum = 0;
        for (const Walk& walk : walks) sum += walk.cost[walk.at + x * walk.step];
        if (sum < least) least = sum, gone.best[e] = static_cast<std::uint32_t>(x);
      }
      out.cost[e] = least;
      for (std::size_t k = scope.size(); k-- > 0;) {
        const std::uint32_t size = core_.nodes[scope[k]].size;
        const bool wraps = ++at[k] == size;
        for (Walk& walk : walks) wraps ? walk.at -= (size - 1) * walk.steps[k] : walk.at += walk.steps[k];
        if (!wraps) break;
        at[k] = 0;
      }
    }
    for (const std::size_t t : tables_of_[node]) tables_[t].cost = {};
    for (const std::uint32_t i : scope) {
      near_[i].insert(scope.begin(), scope.end());
      near_[i].erase(i);
      near_[i].erase(node);
    }
    if (!scope.empty()) add(std::move(out));
    eliminated_.push_back(std::move(gone));
  }

  const IntraCore& core_;
  std::size_t largest_;
  std::vector<std::set<std::uint32_t>> near_;
  std::vector<JoinedTable> tables_;
  std::vector<std::vector<std::size_t>> tables_of_;
  std::vector<EliminatedNode> eliminated_;
};

}  // namespace

std::optional<std::vector<std::uint32_t>> eliminate(const IntraCore& core, std::size_t largest_table) {
  if (core.rows() > 0) throw InternalError("elimination knows no rows");
  return BucketElimination(core, largest_table).run();
}

}  // namespace pipesim
