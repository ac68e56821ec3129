#include "search/additive/min_sum.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// A function of some variables.
struct Table {
  std::vector<std::size_t> scope;  // ascending
  std::vector<double> cost;        // the last of the scope fastest
};

// What an eliminated variable does, by the values of those that it was joined to.
struct Eliminated {
  std::size_t variable = 0;
  std::vector<std::size_t> scope;
  std::vector<std::size_t> best;
};

class Elimination {
 public:
  Elimination(const MinSumProblem& problem, std::size_t largest_table)
      : problem_(problem), largest_(largest_table) {}

  MinSum run() {
    MinSum found{std::vector<std::size_t>(problem_.own.size(), 0), 0, true};
    for (std::size_t v = 0; v < found.values.size(); ++v) {
      const std::vector<double>& own = problem_.own[v];
      found.values[v] = static_cast<std::size_t>(std::ranges::min_element(own) - own.begin());
    }
    found.cost = problem_.cost(found.values);
    constexpr int kMostImprovements = 20;
    for (int round = 0; round < kMostImprovements; ++round) {
      if (round > 0) improve_one_by_one(found.values);
      std::vector<std::size_t> values = found.values;
      found.proven = eliminate(values);
      const double cost = problem_.cost(values);
      const bool better = cost < found.cost;
      if (better || found.proven) found.values = std::move(values), found.cost = cost;
      if (found.proven || (!better && round > 0)) break;
    }
    return found;
  }

 private:
  [[nodiscard]] std::size_t size(std::size_t variable) const { return problem_.own[variable].size(); }

  // False where some variables kept their values.
  bool eliminate(std::vector<std::size_t>& values) {
    tables_.clear();
    choices_.clear();
    near_.assign(values.size(), {});
    for (const MinSumProblem::Pair& p : problem_.pairs) near_[p.a].insert(p.b), near_[p.b].insert(p.a);
    for (std::size_t v = 0; v < values.size(); ++v) tables_.push_back({{v}, problem_.own[v]});
    for (const MinSumProblem::Pair& p : problem_.pairs) tables_.push_back({{p.a, p.b}, p.cost});
    std::vector<bool> left(values.size(), true);
    bool proven = true;
    for (std::size_t n = values.size(); n > 0; --n) {
      stop_if_late();
      std::size_t smallest = 0, next = values.size(), widest = values.size(), most = 0;
      for (std::size_t v = 0; v < values.size(); ++v) {
        if (!left[v]) continue;
        const std::size_t entries = joint_entries(v);
        if (next == values.size() || entries < smallest) smallest = entries, next = v;
        if (widest == values.size() || entries > most) most = entries, widest = v;
      }
      if (smallest <= largest_) {
        eliminate_one(next);
      } else {
        next = widest;
        hold(next, values[next]);
        proven = false;
      }
      left[next] = false;
    }
    for (auto c = choices_.rbegin(); c != choices_.rend(); ++c) {
      std::size_t at = 0;
      for (const std::size_t v : c->scope) at = at * size(v) + values[v];
      values[c->variable] = c->best[at];
    }
    return proven;
  }

  [[nodiscard]] std::size_t joint_entries(std::size_t variable) const {
    std::size_t entries = 1;
    for (const std::size_t v : near_[variable]) {
      if (entries > largest_) break;
      entries *= size(v);
    }
    return entries;
  }

  void eliminate_one(std::size_t variable) {
    Eliminated choice{variable, {near_[variable].begin(), near_[variable].end()}, {}};
    std::vector<Table> joined;
    const auto has = [&](const Table& t) { return std::ranges::find(t.scope, variable) != t.scope.end(); };
    for (Table& t : tables_) {
      if (has(t)) joined.push_back(std::move(t));
    }
    std::erase_if(tables_, [](const Table& t) { return t.cost.empty(); });
    Table out{choice.scope, {}};
    std::size_t entries = 1;
    for (const std::size_t v : out.scope) entries *= size(v);
    out.cost.assign(entries, 0);
    choice.best.assign(entries, 0);
    std::vector<std::size_t> values(out.scope.size(), 0);
    std::vector<double> sum;
    for (std::size_t e = 0; e < entries; ++e) {
      sum.assign(size(variable), 0);
      for (const Table& t : joined) add_row(t, variable, out.scope, values, sum);
      const auto best = std::ranges::min_element(sum);
      out.cost[e] = *best;
      choice.best[e] = static_cast<std::size_t>(best - sum.begin());
      for (std::size_t i = values.size(); i-- > 0;) {
        if (++values[i] < size(out.scope[i])) break;
        values[i] = 0;
      }
    }
    tables_.push_back(std::move(out));
    for (const std::size_t v : choice.scope) {
      near_[v].insert(choice.scope.begin(), choice.scope.end());
      near_[v].erase(v);
      near_[v].erase(variable);
    }
    choices_.push_back(std::move(choice));
  }

  // The table's costs for all values of one variable, the others' given.
  void add_row(const Table& table, std::size_t variable, const std::vector<std::size_t>& scope,
               const std::vector<std::size_t>& values, std::vector<double>& sum) const {
    std::size_t at = 0, stride = 1, step = 1;
    for (std::size_t i = table.scope.size(); i-- > 0;) {
      const std::size_t v = table.scope[i];
      if (v == variable) {
        step = stride;
      } else {
        at += stride * values[static_cast<std::size_t>(std::ranges::lower_bound(scope, v) - scope.begin())];
      }
      stride *= size(v);
    }
    for (std::size_t x = 0; x < sum.size(); ++x) sum[x] += table.cost[at + x * step];
  }

  // The variable has this value in all tables.
  void hold(std::size_t variable, std::size_t value) {
    for (const std::size_t v : near_[variable]) near_[v].erase(variable);
    for (Table& t : tables_) {
      const auto it = std::ranges::find(t.scope, variable);
      if (it == t.scope.end()) continue;
      std::size_t stride = 1;
      for (auto later = it + 1; later != t.scope.end(); ++later) stride *= size(*later);
      const std::size_t values = size(variable);
      std::vector<double> kept;
      for (std::size_t e = 0; e < t.cost.size(); ++e) {
        if (e / stride % values == value) kept.push_back(t.cost[e]);
      }
      t.cost = std::move(kept);
      t.scope.erase(it);
    }
  }

  void improve_one_by_one(std::vector<std::size_t>& values) const {
    bool better = true;
    while (better) {
      better = false;
      for (std::size_t v = 0; v < values.size(); ++v) {
        stop_if_late();
        std::vector<double> sum = problem_.own[v];
        for (const MinSumProblem::Pair& p : problem_.pairs) {
          for (std::size_t x = 0; x < sum.size(); ++x) {
            if (p.a == v) sum[x] += p.cost[x * size(p.b) + values[p.b]];
            if (p.b == v) sum[x] += p.cost[values[p.a] * size(v) + x];
          }
        }
        const auto best = std::ranges::min_element(sum);
        if (*best >= sum[values[v]]) continue;
        values[v] = static_cast<std::size_t>(best - sum.begin());
        better = true;
      }
    }
  }

  const MinSumProblem& problem_;
  std::size_t largest_;
  std::vector<std::set<std::size_t>> near_;  // by variable that is left: those in tables with it
  std::vector<Table> tables_;
  std::vector<Eliminated> choices_;
};

}  // namespace

double MinSumProblem::cost(const std::vector<std::size_t>& values) const {
  double sum = 0;
  for (std::size_t v = 0; v < own.size(); ++v) sum += own[v][values[v]];
  for (const Pair& p : pairs) sum += p.cost[values[p.a] * own[p.b].size() + values[p.b]];
  return sum;
}

MinSum minimise(const MinSumProblem& problem, std::size_t largest_table) {
  return Elimination(problem, largest_table).run();
}

}  // namespace pipesim
