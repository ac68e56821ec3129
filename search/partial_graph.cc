#include "search/partial_graph.h"

#include <algorithm>

namespace pipesim {
namespace {

std::size_t tasks_in(const PassWork& work) {
  std::size_t count = work.durations.size();
  for (const std::vector<InnerReduce>& stage : work.reduces) count += stage.size();
  return count;
}

Nanoseconds time_on_lane(const PassWork& work, std::size_t shards, std::size_t shard) {
  Nanoseconds sum = 0;
  if (!work.present) return sum;
  for (std::size_t stage = 0; stage < work.stages(); ++stage) sum += work.durations[stage * shards + shard];
  return sum;
}

}  // namespace

Nanoseconds backward_time(const BoundOperator& bound, std::size_t shard) {
  const std::size_t shards = bound.config.devices.size();
  return time_on_lane(bound.backward_input, shards, shard) + time_on_lane(bound.backward_weight, shards, shard);
}

PartialGraph::PartialGraph(TaskGraphBuilder& builder)
    : builder_(builder), model_(builder.graph()), update_needs_(model_.operators().size()) {
  for (std::size_t t = 0; t < model_.tensors().size(); ++t) {
    if (model_.tensors()[t].kind != TensorKind::Weight) continue;
    const auto users = model_.consumers(TensorId(t));
    for (const UseRef user : users) update_needs_[users.front().op.index()].push_back(user.op);
  }
}

void PartialGraph::build(const BoundStrategy& strategy, const std::vector<bool>& settled,
                         const UpstreamBounds& upstream) {
  builder_.build(strategy, graph_, TaskGraphBuilder::Labels::Leave);
  strategy_ = &strategy;
  settled_ = settled;
  upstream_ = upstream;
  const std::size_t n = graph_.dag.num_tasks();
  kept_.assign(n, 0);
  head_.assign(n, 0);
  rest_.assign(n, 0);
  least_from_.assign(n, 0);
  for (std::size_t i = 0; i < settled.size(); ++i) {
    if (settled[i]) keep_passes(OperatorId(i), *strategy[i]);
    if (settled[i] && upstream[i] != nullptr) seed(OperatorId(i), upstream[i]->least);
  }
  for (const Wiring& wiring : builder_.wirings()) keep_communication(wiring);
  sort_tasks();
  find_heads();
  find_rests();
}

void PartialGraph::keep(TaskId first, std::size_t count) {
  if (first.valid()) std::fill_n(kept_.begin() + first.value, count, std::uint8_t{1});
}

void PartialGraph::keep_passes(OperatorId op, const BoundOperator& bound) {
  const OperatorTasks& tasks = builder_.tasks_of(op);
  keep(tasks.forward, tasks_in(bound.forward));
  keep(tasks.backward_input, tasks_in(bound.backward_input));
  keep(tasks.backward_weight, tasks_in(bound.backward_weight));
  const std::vector<OperatorId>& users = update_needs_[op.index()];
  if (std::all_of(users.begin(), users.end(), [&](OperatorId user) { return settled_[user.index()]; })) {
    keep(tasks.update, tasks.update_devices.size());
  }
}

bool PartialGraph::all_settled(std::span<const UseRef> uses) const {
  return std::all_of(uses.begin(), uses.end(), [&](UseRef use) { return settled_[use.op.index()]; });
}

void PartialGraph::keep_communication(const Wiring& wiring) {
  const bool settled_source = all_settled(wiring.sources);
  bool settled = false;
  if (wiring.kind == TaskKind::ForwardTransfer) {
    settled = settled_source && std::any_of(wiring.destinations.begin(), wiring.destinations.end(),
                                            [&](UseRef use) { return settled_[use.op.index()]; });
  } else if (wiring.kind == TaskKind::BackwardTransfer) {
    settled = settled_source && all_settled(wiring.destinations);
  } else {
    settled = all_settled(model_.consumers(wiring.tensor));
  }
  if (settled) keep(wiring.first_task, wiring.plan->tasks.size());
}

void PartialGraph::seed(OperatorId op, const UpstreamChoice& least) {
  const OperatorTasks& tasks = builder_.tasks_of(op);
  for (std::size_t k = 0; k < least.shards(); ++k) {
    if (tasks.forward.valid()) head_[tasks.forward.index() + k] = least.release()[k];
    for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
      if (first.valid()) least_from_[first.index() + k] = std::max(least.path()[k], least.lane()[k]);
    }
  }
}

void PartialGraph::sort_tasks() {
  const TaskDag& dag = graph_.dag;
  missing_.assign(dag.num_tasks(), 0);
  for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
    if (kept_[t] == 0) continue;
    for (const TaskId after : dag.successors(TaskId(t))) ++missing_[after.index()];
  }
  order_.clear();
  for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
    if (kept_[t] != 0 && missing_[t] == 0) order_.emplace_back(t);
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    for (const TaskId after : dag.successors(order_[i])) {
      if (--missing_[after.index()] == 0 && kept_[after.index()] != 0) order_.push_back(after);
    }
  }
}

void PartialGraph::find_heads() {
  const TaskDag& dag = graph_.dag;
  for (const TaskId task : order_) {
    const Nanoseconds end = head_[task.index()] + dag.duration(task);
    for (const TaskId after : dag.successors(task)) head_[after.index()] = std::max(head_[after.index()], end);
  }
}

void PartialGraph::find_rests() {
  for (auto task = order_.rbegin(); task != order_.rend(); ++task) {
    for (const TaskId after : graph_.dag.successors(*task)) {
      if (kept_[after.index()] == 0) continue;
      rest_[task->index()] = std::max(rest_[task->index()], rest_from(after));
    }
  }
}

Nanoseconds PartialGraph::bound() {
  longest_ = 0;
  for (const TaskId task : order_) longest_ = std::max(longest_, head_[task.index()] + rest_from(task));
  collect_jobs();
  longest_ = std::max(longest_, lanes_bound());
  Nanoseconds bound = longest_;
  for (std::size_t i = 0; i < settled_.size(); ++i) {
    if (!settled_[i] || upstream_[i] == nullptr) continue;
    for (const UpstreamEdge& edge : upstream_[i]->edges) {
      if (!settled_[edge.producer.index()]) bound = std::max(bound, least_over(OperatorId(i), edge));
    }
  }
  return bound;
}

void PartialGraph::collect_jobs() {
  const TaskDag& dag = graph_.dag;
  jobs_.resize(std::max(jobs_.size(), dag.num_lanes()));
  for (std::vector<LaneJob>& lane : jobs_) lane.clear();
  for (const TaskId task : order_) {
    for (const LaneUse use : dag.lanes(task)) {
      if (use.hold == 0) continue;
      const Nanoseconds rest = dag.duration(task) - use.hold + rest_[task.index()];
      jobs_[use.lane.index()].push_back({head_[task.index()], use.hold, rest});
    }
  }
}

Nanoseconds PartialGraph::lanes_bound() {
  Nanoseconds longest = 0;
  for (std::vector<LaneJob>& lane : jobs_) {
    if (lane.size() > 1) longest = std::max(longest, one_lane_bound(lane, scratch_));
  }
  return longest;
}

// When each shard's gradient is there, and when its lane is done with all that is settled and there by then.
void PartialGraph::find_gradients(OperatorId op) {
  const BoundOperator& bound = *(*strategy_)[op.index()];
  const OperatorTasks& tasks = builder_.tasks_of(op);
  const std::size_t shards = bound.config.devices.size();
  ready_.assign(shards, 0);
  busy_.assign(shards, 0);
  if (!tasks.backward_input.valid()) return;
  for (std::size_t k = 0; k < shards; ++k) {
    ready_[k] = head_[tasks.backward_input.index() + k];
    if (tasks.backward_weight.valid()) {
      ready_[k] = std::min(ready_[k], head_[tasks.backward_weight.index() + k]);
    }
    busy_[k] = busy_until(jobs_[bound.config.devices[k].index()], ready_[k]) - backward_time(bound, k);
  }
}

// What is settled starts later by at least the least difference between the choice's releases and the usual ones.
Nanoseconds PartialGraph::bound_with(const UpstreamChoice& choice, const UpstreamChoice& least) const {
  Nanoseconds shift = INT64_MAX, longest = longest_;
  for (std::size_t k = 0; k < choice.shards(); ++k) {
    shift = std::min(shift, choice.release()[k] - least.release()[k]);
    longest = std::max({longest, ready_[k] + choice.path()[k], busy_[k] + choice.lane()[k]});
  }
  return longest + std::max<Nanoseconds>(shift, 0);
}

Nanoseconds PartialGraph::least_over(OperatorId op, const UpstreamEdge& edge) {
  find_gradients(op);
  Nanoseconds bound = INT64_MAX;
  for (const UpstreamChoice& choice : edge.choices) {
    bound = std::min(bound, bound_with(choice, upstream_[op.index()]->least));
  }
  return bound;
}

void PartialGraph::bounds_by_config(OperatorId op, std::vector<Nanoseconds>& out) {
  std::fill(out.begin(), out.end(), 0);
  std::vector<Nanoseconds> least(out.size());
  for (std::size_t i = 0; i < settled_.size(); ++i) {
    if (!settled_[i] || upstream_[i] == nullptr) continue;
    for (const UpstreamEdge& edge : upstream_[i]->edges) {
      if (edge.producer != op) continue;
      find_gradients(OperatorId(i));
      std::fill(least.begin(), least.end(), INT64_MAX);
      for (const UpstreamChoice& choice : edge.choices) {
        least[choice.origin] = std::min(least[choice.origin], bound_with(choice, upstream_[i]->least));
      }
      for (std::size_t c = 0; c < out.size(); ++c) out[c] = std::max(out[c], least[c]);
    }
  }
}

void PartialGraph::distances_from(TaskId task, std::vector<Nanoseconds>& out) const {
  out.assign(graph_.dag.num_tasks(), -1);
  out[task.index()] = 0;
  for (const TaskId t : order_) {
    if (out[t.index()] < 0) continue;
    const Nanoseconds end = out[t.index()] + graph_.dag.duration(t);
    for (const TaskId after : graph_.dag.successors(t)) out[after.index()] = std::max(out[after.index()], end);
  }
}

}  // namespace pipesim
