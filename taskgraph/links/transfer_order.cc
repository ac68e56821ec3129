#include "taskgraph/links/transfer_order.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/base/rng.h"

namespace pipesim {
namespace {

struct DenseUse {
  std::size_t lane = 0;
  Nanoseconds hold = 0;
};

// Lanes are numbered from 0.
struct DenseTask {
  std::vector<DenseUse> uses;
  Nanoseconds duration = 0;
  std::vector<std::size_t> after;
};

struct DenseWay {
  std::vector<DenseTask> tasks;
  std::vector<DenseUse> held;  // by all tasks together
};

std::vector<DenseUse> held_by(const std::vector<DenseTask>& tasks) {
  std::vector<DenseUse> all;
  for (const DenseTask& t : tasks) all.insert(all.end(), t.uses.begin(), t.uses.end());
  std::ranges::sort(all, {}, &DenseUse::lane);
  std::vector<DenseUse> sums;
  for (const DenseUse& use : all) {
    if (sums.empty() || sums.back().lane != use.lane) sums.push_back({use.lane, 0});
    sums.back().hold += use.hold;
  }
  return sums;
}

// The transfers with their lanes numbered, and what all searches need.
class Problem {
 public:
  explicit Problem(std::span<const Transfer> transfers) {
    for (const Transfer& t : transfers) {
      for (const TransferWay& way : t) {
        for (const TransferTask& task : way) {
          for (const LaneUse& use : task.lanes) ids_.push_back(use.lane);
        }
      }
    }
    std::ranges::sort(ids_);
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    for (const Transfer& t : transfers) add(t);
  }

  [[nodiscard]] std::size_t size() const { return ways_.size(); }
  [[nodiscard]] std::size_t num_lanes() const { return ids_.size(); }
  [[nodiscard]] const std::vector<DenseWay>& ways(std::size_t transfer) const { return ways_[transfer]; }
  /// Returns how long a transfer holds lanes at least, whichever way it takes.
  [[nodiscard]] const std::vector<DenseUse>& least_held(std::size_t transfer) const {
    return least_held_[transfer];
  }
  [[nodiscard]] Nanoseconds least() const { return least_; }
  [[nodiscard]] std::size_t lane_uses() const { return lane_uses_; }  // of a transfer's longest way, summed

 private:
  void add(const Transfer& transfer) {
    std::vector<DenseWay>& ways = ways_.emplace_back();
    for (const TransferWay& way : transfer) {
      DenseWay& dense = ways.emplace_back();
      for (const TransferTask& task : way) {
        DenseTask& t = dense.tasks.emplace_back();
        t.duration = task.duration;
        for (const LaneUse& use : task.lanes) t.uses.push_back({lane(use.lane), use.hold});
        for (const std::int32_t before : task.after) t.after.push_back(static_cast<std::size_t>(before));
      }
      dense.held = held_by(dense.tasks);
    }
    add_least(ways);
  }

  [[nodiscard]] std::size_t lane(LaneId id) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(ids_, id) - ids_.begin());
  }

  void add_least(const std::vector<DenseWay>& ways) {
    std::vector<DenseUse> common = ways.front().held;
    std::size_t most = 0;
    Nanoseconds shortest = shortest_time(ways.front());
    for (const DenseWay& way : ways) {
      std::size_t uses = 0;
      for (const DenseTask& t : way.tasks) uses += t.uses.size();
      most = std::max(most, uses);
      shortest = std::min(shortest, shortest_time(way));
      for (DenseUse& use : common) {
        const auto same = std::ranges::lower_bound(way.held, use.lane, {}, &DenseUse::lane);
        const bool held = same != way.held.end() && same->lane == use.lane;
        use.hold = std::min(use.hold, held ? same->hold : 0);
      }
    }
    std::erase_if(common, [](const DenseUse& use) { return use.hold == 0; });
    load_.resize(num_lanes(), 0);
    for (const DenseUse& use : common) least_ = std::max(least_, load_[use.lane] += use.hold);
    least_ = std::max(least_, shortest);
    lane_uses_ += most;
    least_held_.push_back(std::move(common));
  }

  static Nanoseconds shortest_time(const DenseWay& way) {
    Nanoseconds end = 0;
    for (const DenseTask& t : way.tasks) {
      Nanoseconds ready = 0;
      for (const std::size_t before : t.after) ready = std::max(ready, way.tasks[before].duration);
      end = std::max(end, ready + t.duration);
    }
    return end;
  }

  std::vector<LaneId> ids_;
  std::vector<std::vector<DenseWay>> ways_;
  std::vector<std::vector<DenseUse>> least_held_;
  std::vector<Nanoseconds> load_;  // by lane, of least_held_
  Nanoseconds least_ = 0;
  std::size_t lane_uses_ = 0;
};

// Lanes while tasks are put on them.
class LaneTimes {
 public:
  explicit LaneTimes(std::size_t lanes) : free_(lanes, 0) {}
  void clear() { std::ranges::fill(free_, 0); }
  [[nodiscard]] Nanoseconds free(std::size_t lane) const { return free_[lane]; }
  [[nodiscard]] Nanoseconds start_of(const DenseTask& task, Nanoseconds ready = 0) const {
    for (const DenseUse& use : task.uses) ready = std::max(ready, free_[use.lane]);
    return ready;
  }
  Nanoseconds put(const DenseTask& task, Nanoseconds ready = 0) {  // its end
    const Nanoseconds start = start_of(task, ready);
    for (const DenseUse& use : task.uses) free_[use.lane] = start + use.hold;
    return start + task.duration;
  }

 private:
  std::vector<Nanoseconds> free_;
};

// Tasks that wait are taken in the order in which they become ready, so behind all that do not.
class Placing {
 public:
  explicit Placing(const Problem& problem) : problem_(&problem), lanes_(problem.num_lanes()) {}

  void clear() {
    lanes_.clear();
    waiting_.clear();
    end_ = 0;
  }
  [[nodiscard]] const LaneTimes& lanes() const { return lanes_; }
  [[nodiscard]] Nanoseconds end() const { return end_; }  // without tasks that wait

  void put(std::size_t transfer, std::size_t way) {
    const std::vector<DenseTask>& tasks = problem_->ways(transfer)[way].tasks;
    ends_.assign(tasks.size(), 0);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (!tasks[t].after.empty()) continue;
      ends_[t] = lanes_.put(tasks[t]);
      end_ = std::max(end_, ends_[t]);
    }
    for (const DenseTask& t : tasks) {
      if (t.after.empty()) continue;
      Nanoseconds ready = 0;
      for (const std::size_t before : t.after) ready = std::max(ready, ends_[before]);
      waiting_.push_back({ready, &t});
    }
  }
  // Call it after the last transfer.
  Nanoseconds makespan() {
    std::ranges::stable_sort(waiting_, {}, &Waiting::ready);
    for (const Waiting& w : waiting_) end_ = std::max(end_, lanes_.put(*w.task, w.ready));
    return end_;
  }

 private:
  struct Waiting {
    Nanoseconds ready = 0;
    const DenseTask* task = nullptr;
  };
  const Problem* problem_;
  LaneTimes lanes_;
  std::vector<Waiting> waiting_;
  std::vector<Nanoseconds> ends_;  // scratch
  Nanoseconds end_ = 0;
};

Nanoseconds longest_hold_of(const DenseWay& way) {
  Nanoseconds most = 0;
  for (const DenseUse& use : way.held) most = std::max(most, use.hold);
  return most;
}

std::vector<std::size_t> numbers_below(std::size_t n) {
  std::vector<std::size_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

class Greedy {
 public:
  explicit Greedy(const Problem& problem)
      : problem_(problem), placing_(problem), load_(problem.num_lanes()) {}

  std::vector<std::int32_t> balanced_ways() {
    std::vector<std::size_t> order = numbers_below(problem_.size());
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::size_t t) { return longest_hold_of(problem_.ways(t).front()); });
    std::ranges::fill(load_, 0);
    std::vector<std::int32_t> ways(problem_.size(), 0);
    for (const std::size_t t : order) {
      const std::size_t way = emptiest(problem_.ways(t));
      ways[t] = static_cast<std::int32_t>(way);
      for (const DenseUse& use : problem_.ways(t)[way].held) load_[use.lane] += use.hold;
    }
    return ways;
  }

  // `rng`: decides between transfers that are equal otherwise; null: the first.
  TransferOrder ordered(std::vector<std::int32_t> ways, Rng* rng) {
    TransferOrder result;
    result.way = std::move(ways);
    placing_.clear();
    std::ranges::fill(load_, 0);
    for (std::size_t t = 0; t < problem_.size(); ++t) {
      for (const DenseUse& use : way(result, t).held) load_[use.lane] += use.hold;
    }
    std::vector<std::size_t> rest = numbers_below(problem_.size());
    while (!rest.empty()) {
      const auto next = rest.begin() + static_cast<std::ptrdiff_t>(next_of(rest, result, rng));
      const std::size_t t = *next;
      rest.erase(next);
      for (const DenseUse& use : way(result, t).held) load_[use.lane] -= use.hold;
      placing_.put(t, static_cast<std::size_t>(result.way[t]));
      result.order.push_back(static_cast<std::int32_t>(t));
    }
    result.makespan = placing_.makespan();
    result.least = result.makespan <= problem_.least();
    return result;
  }

 private:
  [[nodiscard]] const DenseWay& way(const TransferOrder& order, std::size_t t) const {
    return problem_.ways(t)[static_cast<std::size_t>(order.way[t])];
  }

  [[nodiscard]] std::size_t emptiest(const std::vector<DenseWay>& ways) const {
    std::size_t best = 0;
    std::pair<Nanoseconds, double> least;
    for (std::size_t w = 0; w < ways.size(); ++w) {
      std::pair<Nanoseconds, double> fullness;  // of the fullest lane; of all, by how much they are used
      for (const DenseUse& use : ways[w].held) {
        fullness.first = std::max(fullness.first, load_[use.lane] + use.hold);
        fullness.second += (static_cast<double>(load_[use.lane]) + static_cast<double>(use.hold)) *
                           static_cast<double>(use.hold);
      }
      if (w == 0 || fullness < least) best = w, least = fullness;
    }
    return best;
  }

  std::size_t next_of(const std::vector<std::size_t>& rest, const TransferOrder& order, Rng* rng) {
    using Rank = std::tuple<Nanoseconds, Nanoseconds, Nanoseconds>;
    std::size_t best = 0, equal = 0;
    Rank least;
    for (std::size_t r = 0; r < rest.size(); ++r) {
      const DenseWay& w = way(order, rest[r]);
      Nanoseconds left = 0;
      for (const DenseUse& use : w.held) left = std::max(left, load_[use.lane]);
      const Rank rank{placing_.lanes().start_of(w.tasks.front()), -left, -longest_hold_of(w)};
      if (r == 0 || rank < least) {
        best = r, least = rank, equal = 1;
      } else if (rng != nullptr && rank == least && rng->below(++equal) == 0) {
        best = r;
      }
    }
    return best;
  }

  const Problem& problem_;
  Placing placing_;
  std::vector<Nanoseconds> load_;  // by lane
};

// Tries all orders and ways except those that can't be better than what was found.
class DepthFirst {
 public:
  DepthFirst(const Problem& problem, TransferOrder first, std::int64_t most_steps)
      : problem_(problem),
        placing_(problem),
        best_(std::move(first)),
        left_(problem.num_lanes(), 0),
        placed_(problem.size(), false),
        most_steps_(most_steps) {
    now_.way.assign(problem.size(), 0);
    for (std::size_t t = 0; t < problem.size(); ++t) count(t, 1);
  }

  std::optional<TransferOrder> run() {
    extend();
    if (steps_ > most_steps_) return std::nullopt;
    best_.least = true;
    return std::move(best_);
  }

 private:
  void count(std::size_t transfer, Nanoseconds sign) {
    for (const DenseUse& use : problem_.least_held(transfer)) left_[use.lane] += sign * use.hold;
  }
  [[nodiscard]] bool hopeless() const {
    if (placing_.end() >= best_.makespan) return true;
    for (std::size_t l = 0; l < left_.size(); ++l) {
      if (placing_.lanes().free(l) + left_[l] >= best_.makespan) return true;
    }
    return false;
  }
  [[nodiscard]] bool done() const { return steps_ > most_steps_ || best_.makespan <= problem_.least(); }

  void extend() {
    if (now_.order.size() == problem_.size()) {
      Placing rest = placing_;
      now_.makespan = rest.makespan();
      if (now_.makespan < best_.makespan) best_ = now_;
      return;
    }
    for (std::size_t t = 0; t < problem_.size() && !done(); ++t) {
      if (placed_[t]) continue;
      placed_[t] = true;
      now_.order.push_back(static_cast<std::int32_t>(t));
      count(t, -1);
      for (std::size_t w = 0; w < problem_.ways(t).size() && !done(); ++w) {
        ++steps_;
        const Placing before = placing_;
        now_.way[t] = static_cast<std::int32_t>(w);
        placing_.put(t, w);
        if (!hopeless()) extend();
        placing_ = before;
      }
      count(t, 1);
      now_.order.pop_back();
      placed_[t] = false;
    }
  }

  const Problem& problem_;
  Placing placing_;
  TransferOrder best_, now_;
  std::vector<Nanoseconds> left_;  // by lane: what the transfers that are not placed hold for certain
  std::vector<bool> placed_;
  std::int64_t most_steps_, steps_ = 0;
};

TransferOrder greedy_order(const Problem& problem) {
  Greedy greedy(problem);
  return greedy.ordered(greedy.balanced_ways(), nullptr);
}

// Changes the ways of one or two transfers, or none, and breaks ties anew.
TransferOrder improved(const Problem& problem, TransferOrder best, Nanoseconds enough) {
  // So many looks at a lane take about a millisecond.
  constexpr std::size_t kLooks = 1 << 19, kMostOrders = 400;
  const std::size_t looks = problem.size() * problem.lane_uses() / 2 + 1;
  std::vector<std::size_t> free;  // transfers with several ways
  for (std::size_t t = 0; t < problem.size(); ++t) {
    if (problem.ways(t).size() > 1) free.push_back(t);
  }
  Rng rng(1);
  Greedy greedy(problem);
  for (std::size_t n = std::min(kMostOrders, kLooks / looks); n > 0 && best.makespan > enough; --n) {
    std::vector<std::int32_t> ways = best.way;
    for (std::uint64_t changes = free.empty() ? 0 : rng.below(3); changes > 0; --changes) {
      const std::size_t t = free[rng.below(free.size())];
      ways[t] = static_cast<std::int32_t>(rng.below(problem.ways(t).size()));
    }
    TransferOrder found = greedy.ordered(std::move(ways), &rng);
    if (found.makespan < best.makespan) best = std::move(found);
  }
  return best;
}

}  // namespace

Nanoseconds makespan_of(std::span<const Transfer> transfers, const TransferOrder& order) {
  const Problem problem(transfers);
  Placing placing(problem);
  for (const std::int32_t t : order.order) {
    const auto transfer = static_cast<std::size_t>(t);
    placing.put(transfer, static_cast<std::size_t>(order.way[transfer]));
  }
  return placing.makespan();
}

Nanoseconds least_makespan(std::span<const Transfer> transfers) { return Problem(transfers).least(); }

TransferOrder order_greedily(std::span<const Transfer> transfers) { return greedy_order(Problem(transfers)); }

std::optional<TransferOrder> order_exactly(std::span<const Transfer> transfers, std::int64_t most_steps) {
  const Problem problem(transfers);
  return DepthFirst(problem, greedy_order(problem), most_steps).run();
}

TransferOrder order_transfers(std::span<const Transfer> transfers, Nanoseconds enough) {
  constexpr std::size_t kFew = 6;               // 720 orders
  constexpr std::int64_t kMostSteps = 1 << 13;  // about a millisecond
  const Problem problem(transfers);
  enough = std::max(enough, problem.least());
  TransferOrder best = greedy_order(problem);
  if (best.makespan <= enough) return best;
  if (problem.size() <= kFew) {
    if (std::optional<TransferOrder> exact = DepthFirst(problem, best, kMostSteps).run()) return *exact;
  }
  best = improved(problem, std::move(best), enough);
  best.least = best.makespan <= problem.least();
  return best;
}

}  // namespace pipesim
