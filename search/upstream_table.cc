#include "search/upstream_table.h"

#include <algorithm>

namespace pipesim {
namespace {

constexpr std::size_t kMostChoices = 1024;
constexpr std::size_t kMostChoicesOfOrigin = 64;

std::vector<OperatorId> producers_of(const OperatorGraph& graph, OperatorId op) {
  std::vector<OperatorId> producers;
  for (const TensorUse& use : graph.op(op).uses) {
    const OperatorId producer = graph.tensor(use.tensor).producer;
    if (use.role != Role::Output && producer.valid()) producers.push_back(producer);
  }
  std::sort(producers.begin(), producers.end());
  producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
  return producers;
}

// No other operator reads what the producer makes, so its gradients depend on these two configs alone.
bool only_consumer(const OperatorGraph& graph, OperatorId producer, OperatorId consumer) {
  for (const TensorUse& use : graph.op(producer).uses) {
    if (use.role != Role::Output) continue;
    for (const UseRef reader : graph.consumers(use.tensor)) {
      if (reader.op != consumer) return false;
    }
  }
  return true;
}

TaskId first_backward(const OperatorTasks& tasks) {
  return tasks.backward_input.valid() ? tasks.backward_input : tasks.backward_weight;
}

// One choice of each edge.
std::vector<UpstreamChoice> combined(const std::vector<UpstreamEdge>& edges, const UpstreamChoice& own) {
  std::vector<UpstreamChoice> all{own};
  for (const UpstreamEdge& edge : edges) {
    std::vector<UpstreamChoice> of_edge = edge.choices, more;
    thin_out(of_edge, kMostChoices, false);
    for (const UpstreamChoice& a : all) {
      for (const UpstreamChoice& b : of_edge) {
        more.push_back(a);
        more.back().take_largest(b);
      }
    }
    all = std::move(more);
    thin_out(all, kMostChoices, false);
  }
  return all;
}

}  // namespace

// Distances between the shards of a producer and its consumer; negative where no way leads.
struct UpstreamTable::Pair {
  std::size_t producer_shards, shards;
  std::vector<Nanoseconds> forward;      // [shard · producer shards + producer shard], start to start
  std::vector<Nanoseconds> backward;     // the same, gradient there to gradient there
  std::vector<std::int32_t> same_lane;   // by shard: producer's shard on the same device and after it; −1: none
  std::vector<Nanoseconds> own;          // by shard: backward time

  [[nodiscard]] UpstreamChoice extend(const UpstreamChoice& above, std::size_t origin) const {
    UpstreamChoice choice(shards, origin);
    for (std::size_t k = 0; k < shards; ++k) {
      for (std::size_t i = 0; i < producer_shards; ++i) {
        const std::size_t at = k * producer_shards + i;
        if (forward[at] >= 0) choice.release()[k] = std::max(choice.release()[k], above.release()[i] + forward[at]);
        if (backward[at] >= 0) choice.path()[k] = std::max(choice.path()[k], above.path()[i] + backward[at]);
      }
      choice.lane()[k] = own[k] + (same_lane[k] < 0 ? 0 : above.lane()[static_cast<std::size_t>(same_lane[k])]);
    }
    return choice;
  }
};

UpstreamTable::UpstreamTable(const CandidateSet& candidates, TaskGraphBuilder& builder)
    : candidates_(candidates),
      graph_(builder),
      settled_(candidates.graph().operators().size(), false),
      nothing_(settled_.size(), nullptr),
      configs_(settled_.size()),
      bounds_(settled_.size()) {
  for (std::size_t i = 0; i < settled_.size(); ++i) {
    const OperatorId op(i);
    for (std::size_t c = 0; c < candidates.size(op); ++c) {
      configs_[i].push_back(builder.bind(op, candidates.config(op, c)));
    }
    filler_.push_back(configs_[i].front());
  }
  strategy_ = filler_;
  for (std::size_t i = 0; i < settled_.size(); ++i) fill(OperatorId(i));
}

void UpstreamTable::settle(const std::vector<OperatorId>& ops) {
  settled_.assign(settled_.size(), false);
  for (const OperatorId op : ops) settled_[op.index()] = true;
  graph_.build(strategy_, settled_, nothing_);
}

void UpstreamTable::fill(OperatorId op) {
  const std::vector<OperatorId> producers = producers_of(candidates_.graph(), op);
  for (const BoundOperator* config : configs_[op.index()]) {
    strategy_[op.index()] = config;
    UpstreamBound bound;
    const UpstreamChoice own = alone(op);
    for (const OperatorId producer : producers) bound.edges.push_back(edge(producer, op));
    bound.choices = combined(bound.edges, own);
    for (UpstreamEdge& e : bound.edges) {
      for (UpstreamChoice& c : e.choices) c.take_largest(own);
    }
    bound.least = bound.choices.front();
    for (const UpstreamChoice& c : bound.choices) bound.least.take_least(c);
    bounds_[op.index()].push_back(std::move(bound));
  }
  strategy_[op.index()] = filler_[op.index()];
}

UpstreamChoice UpstreamTable::alone(OperatorId op) {
  settle({op});
  const BoundOperator& bound = *strategy_[op.index()];
  const OperatorTasks& tasks = graph_.tasks_of(op);
  UpstreamChoice choice(bound.config.devices.size());
  for (std::size_t k = 0; k < choice.shards(); ++k) {
    for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
      if (!first.valid()) continue;
      choice.path()[k] = std::max(choice.path()[k], graph_.rest_from(TaskId(first.index() + k)));
    }
    choice.lane()[k] = backward_time(bound, k);
  }
  return choice;
}

UpstreamTable::Pair UpstreamTable::measure(OperatorId producer, OperatorId op) {
  settle({producer, op});
  const BoundOperator& above = *strategy_[producer.index()];
  const BoundOperator& bound = *strategy_[op.index()];
  const OperatorTasks& from = graph_.tasks_of(producer);
  const OperatorTasks& to = graph_.tasks_of(op);
  Pair pair{above.config.devices.size(), bound.config.devices.size(), {}, {}, {}, {}};
  pair.forward.assign(pair.shards * pair.producer_shards, -1);
  pair.backward = pair.forward;
  pair.same_lane.assign(pair.shards, -1);
  for (std::size_t k = 0; k < pair.shards; ++k) pair.own.push_back(backward_time(bound, k));
  for (std::size_t i = 0; i < pair.producer_shards && from.forward.valid() && to.forward.valid(); ++i) {
    graph_.distances_from(TaskId(from.forward.index() + i), distances_);
    for (std::size_t k = 0; k < pair.shards; ++k) {
      pair.forward[k * pair.producer_shards + i] = distances_[to.forward.index() + k];
    }
  }
  const TaskId gradient = first_backward(from);
  if (!gradient.valid() || !to.backward_input.valid() || !only_consumer(candidates_.graph(), producer, op)) return pair;
  for (std::size_t k = 0; k < pair.shards; ++k) {
    graph_.distances_from(TaskId(to.backward_input.index() + k), distances_);
    for (std::size_t i = 0; i < pair.producer_shards; ++i) {
      pair.backward[k * pair.producer_shards + i] = distances_[gradient.index() + i];
    }
    const std::int32_t same = above.shard_of_device[bound.config.devices[k].index()];
    if (same >= 0 && distances_[gradient.index() + static_cast<std::size_t>(same)] >= 0) pair.same_lane[k] = same;
  }
  return pair;
}

UpstreamEdge UpstreamTable::edge(OperatorId producer, OperatorId op) {
  UpstreamEdge edge{producer, {}};
  for (std::size_t c = 0; c < configs_[producer.index()].size(); ++c) {
    strategy_[producer.index()] = configs_[producer.index()][c];
    const Pair pair = measure(producer, op);
    std::vector<UpstreamChoice> choices;
    for (const UpstreamChoice& above : bounds_[producer.index()][c].choices) choices.push_back(pair.extend(above, c));
    thin_out(choices, kMostChoicesOfOrigin, false);
    std::move(choices.begin(), choices.end(), std::back_inserter(edge.choices));
  }
  strategy_[producer.index()] = filler_[producer.index()];
  return edge;
}

}  // namespace pipesim
