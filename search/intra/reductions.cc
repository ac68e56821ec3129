#include "search/intra/reductions.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

using Part = IntraModel::Part;

// The cost of the node's strategy x beside the neighbour's z.
struct Beside {
  const IntraModel::Edge* edge;
  bool node_first;
  std::size_t columns, others;

  [[nodiscard]] double cost(std::size_t x, std::size_t z) const {
    return edge->cost[node_first ? x * columns + z : z * columns + x];
  }
};

// The least value of any range, from those of ranges whose lengths are powers of two.
class LeastOfRange {
 public:
  explicit LeastOfRange(const std::vector<std::int64_t>& values) : levels_{values} {
    for (std::size_t half = 1; 2 * half <= values.size(); half *= 2) {
      const std::vector<std::int64_t>& before = levels_.back();
      std::vector<std::int64_t> level;
      for (std::size_t i = 0; i + half < before.size(); ++i)
        level.push_back(std::min(before[i], before[i + half]));
      levels_.push_back(std::move(level));
    }
  }

  [[nodiscard]] std::int64_t least(std::size_t begin, std::size_t end) const {
    const auto level = static_cast<std::size_t>(std::bit_width(end - begin) - 1);
    return std::min(levels_[level][begin], levels_[level][end - (std::size_t{1} << level)]);
  }

 private:
  std::vector<std::vector<std::int64_t>> levels_;
};

class Reducer {
 public:
  Reducer(IntraModel& model, const IntraReductions& allowed)
      : model_(model),
        allowed_(allowed),
        waits_(model.nodes.size(), false),
        spent_(model.capacity.size() + 1, 0) {}

  void run() {
    for (std::uint32_t i = 0; i < model_.nodes.size(); ++i) {
      if (model_.nodes[i].left) wake(i);
    }
    do {
      // In rounds, so that a node with many neighbours waits until all of them have changed.
      std::vector<std::uint32_t> round;
      while (!queue_.empty() && !model_.infeasible) {
        round.swap(queue_);
        queue_.clear();
        std::ranges::sort(round);
        for (const std::uint32_t node : round) waits_[node] = false;
        for (const std::uint32_t node : round) {
          stop_if_late();
          if (model_.nodes[node].left && !model_.infeasible) reduce_node(node);
        }
      }
    } while (!model_.infeasible && reduce_rows());
  }

 private:
  void wake(std::uint32_t node) {
    if (!waits_[node]) queue_.push_back(node);
    waits_[node] = true;
  }
  void wake_neighbours(std::uint32_t node) {
    for (const std::uint32_t e : model_.nodes[node].edges) wake(model_.edges[e].other(node));
  }

  [[nodiscard]] Beside beside(std::uint32_t node, std::uint32_t e) const {
    const IntraModel::Edge& edge = model_.edges[e];
    return {&edge, edge.a == node, model_.nodes[edge.b].cost.size(),
            model_.nodes[edge.other(node)].cost.size()};
  }

  void reduce_node(std::uint32_t node) {
    if (allowed_.supports && drop_unsupported(node)) wake(node), wake_neighbours(node);
    if (model_.infeasible) return;
    if (allowed_.dominated && drop_dominated(node)) wake(node), wake_neighbours(node);
    drop_flat_edges(node);
    const IntraModel::Node& at = model_.nodes[node];
    if (at.edges.empty() && vanish_alone(node)) return;
    if (at.cost.size() == 1 && allowed_.supports) {
      vanish_single(node);
      return;
    }
    if (allowed_.determined) {
      for (const std::uint32_t e : at.edges) {
        if (vanish_beside(node, e)) return;
      }
    }
    if (allowed_.degree_two && at.edges.size() == 2 && at.parts.empty()) vanish_between(node);
  }

  bool drop(std::uint32_t node, const std::vector<bool>& kept) {
    if (std::ranges::count(kept, true) == static_cast<std::ptrdiff_t>(kept.size())) return false;
    if (std::ranges::count(kept, true) == 0) {
      model_.infeasible = true;
      return false;
    }
    model_.keep(node, kept);
    return true;
  }

  bool drop_unsupported(std::uint32_t node) {
    const IntraModel::Node& at = model_.nodes[node];
    std::vector<bool> kept(at.cost.size());
    for (std::size_t x = 0; x < kept.size(); ++x) kept[x] = at.cost[x] < kNever;
    for (const std::uint32_t e : at.edges) {
      const Beside edge = beside(node, e);
      for (std::size_t x = 0; x < kept.size(); ++x) {
        bool supported = false;
        for (std::size_t z = 0; z < edge.others && !supported; ++z) supported = edge.cost(x, z) < kNever;
        if (!supported) kept[x] = false;
      }
    }
    return drop(node, kept);
  }

  static bool uses_no_more(const IntraModel::Node& node, std::size_t y, std::size_t x) {
    return std::ranges::all_of(node.parts, [&](const Part& part) { return part.usage[y] <= part.usage[x]; });
  }

  // Drops a strategy x when another one, y, uses no more and costs no more, whatever the neighbours choose.
  bool drop_dominated(std::uint32_t node) {
    const IntraModel::Node& at = model_.nodes[node];
    const std::size_t size = at.cost.size();
    if (size < 2) return false;
    std::vector<Beside> edges;
    std::size_t cells = 0;
    for (const std::uint32_t e : at.edges) edges.push_back(beside(node, e)), cells += edges.back().others;
    // least[e · size + x]: the least that the edge costs with x.
    std::vector<double> least(edges.size() * size, kNever), sum = at.cost;
    for (std::size_t e = 0; e < edges.size(); ++e) {
      for (std::size_t x = 0; x < size; ++x) {
        double& low = least[e * size + x];
        for (std::size_t z = 0; z < edges[e].others; ++z) low = std::min(low, edges[e].cost(x, z));
        sum[x] += low;
      }
    }
    std::vector<bool> kept(size, true);
    for (std::size_t x = 0; x < size; ++x) {
      if (!(sum[x] < kNever)) continue;  // another reduction's
      for (std::size_t y = 0; y < size && kept[x]; ++y) {
        if (y == x || !kept[y] || sum[y] > sum[x] || !uses_no_more(at, y, x)) continue;
        double more = sum[y] - sum[x];
        for (std::size_t e = 0; e < edges.size() && more <= 0; ++e) {
          const double expected = least[e * size + y] - least[e * size + x];
          double most = -kNever;
          for (std::size_t z = 0; z < edges[e].others; ++z) {
            const double with_x = edges[e].cost(x, z);
            if (with_x < kNever) most = std::max(most, edges[e].cost(y, z) - with_x);
          }
          more += most - expected;
        }
        if (more <= 0) kept[x] = false;
      }
    }
    return drop(node, kept);
  }

  // An edge whose cost is a sum of a function of each end.
  void drop_flat_edges(std::uint32_t node) {
    const std::vector<std::uint32_t> edges = model_.nodes[node].edges;
    for (const std::uint32_t e : edges) {
      const IntraModel::Edge& edge = model_.edges[e];
      IntraModel::Node &a = model_.nodes[edge.a], &b = model_.nodes[edge.b];
      const std::size_t columns = b.cost.size();
      bool flat = edge.cost[0] < kNever;
      for (std::size_t c = 0; c < edge.cost.size() && flat; ++c) {
        const std::size_t x = c / columns, y = c % columns;
        flat = edge.cost[c] < kNever && edge.cost[c] + edge.cost[0] == edge.cost[x * columns] + edge.cost[y];
      }
      if (!flat) continue;
      for (std::size_t x = 0; x < a.cost.size(); ++x) a.cost[x] += edge.cost[x * columns] - edge.cost[0];
      for (std::size_t y = 0; y < columns; ++y) b.cost[y] += edge.cost[y];
      wake(edge.other(node));
      model_.remove_edge(e);
    }
  }

  void record(std::uint32_t node, std::optional<std::uint32_t> given, const std::vector<std::size_t>& best) {
    IntraModel::Vanished gone{node, {}, {}, {}};
    if (given) {
      const std::vector<std::uint32_t>& strategies = model_.nodes[*given].strategy;
      gone.given = {*given};
      gone.sizes = {strategies.back() + 1};
      gone.choice.assign(gone.sizes[0], 0);
      for (std::size_t z = 0; z < best.size(); ++z)
        gone.choice[strategies[z]] = model_.nodes[node].strategy[best[z]];
    } else {
      gone.choice = {model_.nodes[node].strategy[best[0]]};
    }
    model_.vanished.push_back(std::move(gone));
    model_.nodes[node] = {};
    model_.nodes[node].left = false;
  }

  bool vanish_alone(std::uint32_t node) {
    const IntraModel::Node& at = model_.nodes[node];
    const std::size_t best = static_cast<std::size_t>(std::ranges::min_element(at.cost) - at.cost.begin());
    if (!(at.cost[best] < kNever)) {
      model_.infeasible = true;
      return true;
    }
    std::size_t choice = best;
    for (std::size_t x = 0; x < at.cost.size(); ++x) {
      if (at.cost[x] == at.cost[best] && uses_no_more(at, x, choice)) choice = x;
    }
    for (std::size_t x = 0; x < at.cost.size(); ++x) {
      if (at.cost[x] < kNever && !uses_no_more(at, choice, x)) return false;
    }
    fix(node, choice);
    return true;
  }

  void fix(std::uint32_t node, std::size_t choice) {
    const IntraModel::Node& at = model_.nodes[node];
    for (const Part& part : at.parts) spend(part, part.usage[choice]);
    model_.constant += at.cost[choice];
    record(node, std::nullopt, {choice});
  }

  void vanish_single(std::uint32_t node) {
    const std::vector<std::uint32_t> edges = model_.nodes[node].edges;
    for (const std::uint32_t e : edges) {
      const Beside edge = beside(node, e);
      const std::uint32_t other = model_.edges[e].other(node);
      for (std::size_t z = 0; z < edge.others; ++z) model_.nodes[other].cost[z] += edge.cost(0, z);
      wake(other);
      model_.remove_edge(e);
    }
    fix(node, 0);
  }

  // The node's best strategy for each of the neighbour's. None where that depends on what else is chosen.
  std::optional<std::vector<std::size_t>> determined(std::uint32_t node, std::uint32_t e) const {
    const IntraModel::Node& at = model_.nodes[node];
    const Beside edge = beside(node, e);
    const bool leaf = at.edges.size() == 1;
    std::vector<std::size_t> best(edge.others, at.cost.size());
    for (std::size_t z = 0; z < edge.others; ++z) {
      std::size_t& choice = best[z];
      const auto cost = [&](std::size_t x) { return at.cost[x] + edge.cost(x, z); };
      for (std::size_t x = 0; x < at.cost.size(); ++x) {
        if (!(cost(x) < kNever)) continue;
        if (choice == at.cost.size()) {
          choice = x;
        } else if (!leaf) {
          return std::nullopt;
        } else if (cost(x) < cost(choice) || (cost(x) == cost(choice) && uses_no_more(at, x, choice))) {
          choice = x;
        }
      }
      if (choice == at.cost.size()) choice = 0;  // the neighbour's strategy is forbidden; its cost says so
      for (std::size_t x = 0; leaf && x < at.cost.size(); ++x) {
        if (cost(x) < kNever && !uses_no_more(at, choice, x)) return std::nullopt;
      }
    }
    return best;
  }

  bool vanish_beside(std::uint32_t node, std::uint32_t e) {
    const std::uint32_t onto = model_.edges[e].other(node);
    if (model_.nodes[onto].cost.size() > kMostGrowth * model_.nodes[node].cost.size()) {
      if (model_.nodes[node].edges.size() > 1) return false;
    }
    const auto best = determined(node, e);
    if (!best) return false;
    const IntraModel::Node at = model_.nodes[node];
    const Beside edge = beside(node, e);
    for (std::size_t z = 0; z < edge.others; ++z)
      model_.nodes[onto].cost[z] += at.cost[(*best)[z]] + edge.cost((*best)[z], z);
    for (const std::uint32_t f : at.edges) {
      if (f == e) continue;
      const Beside other = beside(node, f);
      std::vector<double> table;
      for (std::size_t z = 0; z < best->size(); ++z) {
        for (std::size_t w = 0; w < other.others; ++w) table.push_back(other.cost((*best)[z], w));
      }
      const std::uint32_t end = model_.edges[f].other(node);
      model_.remove_edge(f);
      model_.add_table(onto, end, table);
      wake(end);
    }
    for (const Part& part : at.parts) {
      Part moved{part.begin, part.end, {}};
      for (const std::size_t x : *best) moved.usage.push_back(part.usage[x]);
      add_part(onto, std::move(moved));
    }
    model_.remove_edge(e);
    record(node, onto, *best);
    wake(onto);
    return true;
  }

  void spend(const Part& part, std::int64_t usage) {
    spent_[part.begin] += usage;
    spent_[part.end] -= usage;
  }

  void add_part(std::uint32_t node, Part part) {
    const std::int64_t least = std::ranges::min(part.usage);
    spend(part, least);
    for (std::int64_t& u : part.usage) u -= least;
    if (std::ranges::max(part.usage) > 0) model_.add_part(node, std::move(part));
  }

  void vanish_between(std::uint32_t node) {
    const IntraModel::Node& at = model_.nodes[node];
    const std::uint32_t e = at.edges[0], f = at.edges[1];
    const Beside first = beside(node, e), second = beside(node, f);
    const std::uint32_t a = model_.edges[e].other(node), b = model_.edges[f].other(node);
    const std::vector<std::uint32_t>&of_a = model_.nodes[a].strategy, &of_b = model_.nodes[b].strategy;
    std::vector<double> table(first.others * second.others, kNever);
    IntraModel::Vanished gone{node, {a, b}, {of_a.back() + 1, of_b.back() + 1}, {}};
    gone.choice.assign(std::size_t{gone.sizes[0]} * gone.sizes[1], 0);
    for (std::size_t y = 0; y < first.others; ++y) {
      for (std::size_t z = 0; z < second.others; ++z) {
        double& low = table[y * second.others + z];
        std::size_t best = 0;
        for (std::size_t x = 0; x < at.cost.size(); ++x) {
          const double cost = at.cost[x] + first.cost(x, y) + second.cost(x, z);
          if (cost < low) low = cost, best = x;
        }
        gone.choice[std::size_t{of_a[y]} * gone.sizes[1] + of_b[z]] = at.strategy[best];
      }
    }
    model_.vanished.push_back(std::move(gone));
    model_.remove_edge(e);
    model_.remove_edge(f);
    model_.nodes[node] = {};
    model_.nodes[node].left = false;
    model_.add_table(a, b, table);
    wake(a), wake(b);
  }

  // Takes the least usage of each node from the capacity, drops strategies that use too much and rows that
  // can't be filled. Whether any node changed.
  bool reduce_rows() {
    const std::size_t rows = model_.capacity.size();
    bool changed = false;
    std::vector<std::int64_t> most(rows + 1, 0);
    for (IntraModel::Node& node : model_.nodes) {
      for (Part& part : node.parts) {
        const std::int64_t least = std::ranges::min(part.usage);
        spend(part, least);
        for (std::int64_t& u : part.usage) u -= least;
        const std::int64_t largest = std::ranges::max(part.usage);
        most[part.begin] += largest;
        most[part.end] -= largest;
      }
    }
    std::int64_t spent = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      spent += spent_[r];
      model_.capacity[r] -= spent;
    }
    if (std::ranges::any_of(model_.capacity, [](std::int64_t c) { return c < 0; })) {
      model_.infeasible = true;
      return false;
    }
    std::vector<bool> binds(rows, true);
    std::int64_t sum = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      sum += most[r];
      if (allowed_.rows) binds[r] = sum > model_.capacity[r];
    }
    compact_rows(binds);
    spent_.assign(model_.capacity.size() + 1, 0);
    const LeastOfRange room(model_.capacity);
    for (std::uint32_t i = 0; i < model_.nodes.size(); ++i) {
      IntraModel::Node& node = model_.nodes[i];
      const std::size_t before = node.parts.size();
      std::erase_if(node.parts,
                    [](const Part& p) { return p.begin == p.end || std::ranges::max(p.usage) == 0; });
      join_parts(node);
      bool changed_here = node.parts.size() != before;
      if (allowed_.supports && drop_too_large(i, room)) changed_here = true, wake_neighbours(i);
      if (changed_here) wake(i);
      changed = changed || changed_here;
    }
    return changed;
  }

  static void join_parts(IntraModel::Node& node) {
    std::ranges::sort(node.parts, [](const Part& a, const Part& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::size_t to = 0;
    for (std::size_t p = 1; p < node.parts.size(); ++p) {
      if (node.parts[p].begin == node.parts[to].begin && node.parts[p].end == node.parts[to].end) {
        for (std::size_t s = 0; s < node.cost.size(); ++s) node.parts[to].usage[s] += node.parts[p].usage[s];
      } else if (++to != p) {
        node.parts[to] = std::move(node.parts[p]);
      }
    }
    if (!node.parts.empty()) node.parts.resize(to + 1);
  }

  bool drop_too_large(std::uint32_t i, const LeastOfRange& capacities) {
    IntraModel::Node& node = model_.nodes[i];
    if (node.parts.empty()) return false;
    std::vector<bool> kept(node.cost.size(), true);
    for (const Part& part : node.parts) {
      const std::int64_t room = capacities.least(part.begin, part.end);
      for (std::size_t s = 0; s < kept.size(); ++s) {
        if (part.usage[s] > room) kept[s] = false;
      }
    }
    return drop(i, kept);
  }

  void compact_rows(const std::vector<bool>& kept) {
    std::vector<std::uint32_t> number(kept.size() + 1, 0);
    std::uint32_t to = 0;
    for (std::size_t r = 0; r < kept.size(); ++r) {
      number[r] = to;
      if (!kept[r]) continue;
      model_.capacity[to] = model_.capacity[r];
      model_.time[to] = model_.time[r];
      ++to;
    }
    number[kept.size()] = to;
    model_.capacity.resize(to);
    model_.time.resize(to);
    for (IntraModel::Node& node : model_.nodes) {
      for (Part& part : node.parts) part.begin = number[part.begin], part.end = number[part.end];
    }
  }

  // A node joins a neighbour with more strategies when the tables of its other edges grow no more than this.
  static constexpr std::size_t kMostGrowth = 4;

  IntraModel& model_;
  const IntraReductions& allowed_;
  std::vector<bool> waits_;
  std::vector<std::uint32_t> queue_;
  std::vector<std::int64_t> spent_;  // differences from row to row of what capacities lose
};

}  // namespace

void reduce(IntraModel& model, const IntraReductions& reductions) { Reducer(model, reductions).run(); }

}  // namespace pipesim
