#include "search/single_changes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

namespace pipesim {
namespace {

// Multiples of it visit 0, …, size − 1 in an order in which neighbours lie far apart.
std::size_t spreading_stride(std::size_t size) {
  constexpr double kGoldenRatio = 0.618;
  auto stride = std::max<std::size_t>(1, static_cast<std::size_t>(kGoldenRatio * static_cast<double>(size)));
  while (std::gcd(stride, size) != 1) ++stride;
  return stride;
}

// One operator's other configs, each once. Only the promising ones are written down: on large topologies an
// operator may have 100,000.
class ChangeQueue {
 public:
  ChangeQueue(OperatorId op, std::size_t size, std::optional<std::size_t> own,
              std::vector<std::size_t> promising)
      : op_(op),
        size_(size),
        stride_(spreading_stride(size)),
        promising_(std::move(promising)),
        known_(promising_.begin(), promising_.end()) {
    if (own) known_.insert(*own);
  }

  [[nodiscard]] OperatorId op() const { return op_; }

  std::optional<std::size_t> next() {
    if (next_promising_ < promising_.size()) return promising_[next_promising_++];
    while (steps_ < size_) {
      const std::size_t i = steps_++ * stride_ % size_;
      if (!known_.contains(i)) return i;
    }
    return std::nullopt;
  }

 private:
  OperatorId op_;
  std::size_t size_, stride_, steps_ = 0, next_promising_ = 0;
  std::vector<std::size_t> promising_;
  std::unordered_set<std::size_t> known_;
};

// What a strategy suggests for its operators.
class Suggestions {
 public:
  Suggestions(const CandidateSet& candidates, const Strategy& start)
      : candidates_(candidates), start_(start) {
    for (std::size_t size = 0; size < candidates.num_sizes(); ++size) {
      for (std::size_t list = 0; list < candidates.num_lists(size); ++list)
        lists_[candidates.list(size, list).devices] = {size, list};
    }
    for (std::size_t i = 0; i < start.size(); ++i) count(OperatorId(i));
    for (auto& [kind, counts] : by_kind_) {
      std::stable_sort(counts.begin(), counts.end(),
                       [](const Count& a, const Count& b) { return a.operators > b.operators; });
    }
  }

  [[nodiscard]] ChangeQueue queue(OperatorId op) {
    const Operator& o = candidates_.graph().op(op);
    const std::optional<std::size_t> own = candidates_.find(op, start_[op.index()]);
    promising_.clear();
    met_.clear();
    if (own) met_.insert(*own);
    for (const Count& count : by_kind_[o.kind]) add(candidates_.find(op, *count.config));
    add_splits(op, start_[op.index()].devices);
    for (const TensorUse& use : o.uses) add_splits_of_neighbours(op, use.tensor);
    return {op, candidates_.size(op), own, promising_};
  }

 private:
  struct Count {
    const ParallelConfig* config = nullptr;
    std::int64_t operators = 0;
  };
  struct List {
    std::size_t size = 0, list = 0;
  };

  void count(OperatorId op) {
    std::vector<Count>& counts = by_kind_[candidates_.graph().op(op).kind];
    const ParallelConfig& config = start_[op.index()];
    const auto same = [&](const Count& count) { return *count.config == config; };
    auto it = std::find_if(counts.begin(), counts.end(), same);
    if (it == counts.end()) it = counts.insert(it, Count{&config, 0});
    ++it->operators;
  }

  void add(std::optional<std::size_t> index) {
    if (index && met_.insert(*index).second) promising_.push_back(*index);
  }

  void add_splits(OperatorId op, std::vector<DeviceId> devices) {
    std::sort(devices.begin(), devices.end());
    const auto it = lists_.find(devices);
    if (it == lists_.end()) return;
    const auto [size, list] = it->second;
    for (std::size_t split = 0; split < candidates_.num_splits(op, size); ++split)
      add(candidates_.index(op, {size, list, split}));
  }

  void add_splits_of_neighbours(OperatorId op, TensorId tensor) {
    const OperatorGraph& graph = candidates_.graph();
    const OperatorId producer = graph.tensor(tensor).producer;
    if (producer.valid()) add_splits(op, start_[producer.index()].devices);
    for (const UseRef& use : graph.consumers(tensor)) add_splits(op, start_[use.op.index()].devices);
  }

  const CandidateSet& candidates_;
  const Strategy& start_;
  std::map<std::vector<DeviceId>, List> lists_;
  std::map<std::string, std::vector<Count>> by_kind_;
  std::vector<std::size_t> promising_;   // of the operator at hand
  std::unordered_set<std::size_t> met_;  // its configs that have a place already
};

// The best change of each operator that beats the start.
class BestChanges {
 public:
  explicit BestChanges(Nanoseconds time) : time_(time) {}

  void note(const SingleChange& change) {
    if (!change.evaluation.feasible() || change.evaluation.time >= time_) return;
    const auto [it, fresh] = best_.emplace(change.op, change);
    if (!fresh && change.evaluation.time < it->second.evaluation.time) it->second = change;
  }

  [[nodiscard]] std::vector<SingleChange> first(std::size_t most) const {
    std::vector<SingleChange> sorted;
    for (const auto& [op, change] : best_) sorted.push_back(change);
    std::stable_sort(sorted.begin(), sorted.end(), [](const SingleChange& a, const SingleChange& b) {
      return a.evaluation.time < b.evaluation.time;
    });
    if (sorted.size() > most) sorted.resize(most);
    return sorted;
  }

 private:
  Nanoseconds time_;
  std::map<OperatorId, SingleChange> best_;
};

std::int64_t number_of_changes(const CandidateSet& candidates, const Strategy& start,
                               std::span<const OperatorId> order) {
  std::int64_t number = 0;
  for (const OperatorId op : order) {
    number += static_cast<std::int64_t>(candidates.size(op));
    if (candidates.find(op, start[op.index()])) --number;
  }
  return number;
}

}  // namespace

SingleChanges best_single_changes(const CandidateSet& candidates, const Strategy& start, Nanoseconds time,
                                  std::span<const OperatorId> order, const TryChange& evaluate,
                                  const std::function<bool(std::int64_t tried)>& stop, std::size_t most) {
  SingleChanges result;
  result.all = number_of_changes(candidates, start, order);
  Suggestions suggestions(candidates, start);
  BestChanges best(time);
  bool stopped = false;
  const auto go_on = [&] {
    stopped = stopped || result.tried == result.all || (stop && stop(result.tried));
    return !stopped;
  };
  const auto try_next = [&](ChangeQueue& queue) {
    const std::optional<std::size_t> index = queue.next();
    if (!index) return;
    best.note({queue.op(), *index, evaluate(queue.op(), *index)});
    ++result.tried;
  };
  std::vector<ChangeQueue> queues;
  for (auto op = order.begin(); op != order.end() && go_on(); ++op)
    try_next(queues.emplace_back(suggestions.queue(*op)));
  while (go_on()) {
    for (auto queue = queues.begin(); queue != queues.end() && go_on(); ++queue) try_next(*queue);
  }
  result.best = best.first(most);
  return result;
}

}  // namespace pipesim
