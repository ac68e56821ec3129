#include "search/exhaustive/partial_graph.h"

#include <algorithm>

namespace pipesim {
namespace {

std::size_t tasks_in(const PassWork& work) { return work.durations.size() + work.exchanges.size(); }

Nanoseconds time_on_lane(const PassWork& work, std::size_t shards, std::size_t shard) {
  Nanoseconds sum = 0;
  if (!work.present) return sum;
  for (std::size_t stage = 0; stage < work.stages(); ++stage) sum += work.durations[stage * shards + shard];
  return sum;
}

}  // namespace

Nanoseconds backward_time(const BoundOperator& bound, std::size_t shard) {
  const std::size_t shards = bound.config.devices.size();
  return time_on_lane(bound.backward_input, shards, shard) +
         time_on_lane(bound.backward_weight, shards, shard);
}

PartialGraph::PartialGraph(const PlanContents& contents)
    : expanded_(contents), model_(contents.graph()), update_needs_(model_.operators().size()) {
  for (std::size_t t = 0; t < model_.tensors().size(); ++t) {
    if (model_.tensors()[t].kind != TensorKind::Weight) continue;
    const auto users = model_.consumers(TensorId(t));
    for (const UseRef user : users) update_needs_[users.front().op.index()].push_back(user.op);
  }
}

void PartialGraph::build(const BoundStrategy& strategy, const std::vector<bool>& settled,
                         const std::vector<OperatorId>& boundary, const UpstreamBound* upstream) {
  expanded_.expand(strategy);
  strategy_ = &strategy;
  settled_ = settled;
  boundary_ = boundary;
  upstream_ = upstream;
  const std::size_t n = expanded_.dag().num_tasks();
  kept_.assign(n, 0);
  open_.assign(n, 0);
  owner_.assign(n, -1);
  local_.clear();
  head_.assign(n, 0);
  rest_.assign(n, 0);
  least_from_.assign(n, 0);
  for (std::size_t i = 0; i < settled.size(); ++i) {
    if (settled[i]) keep_passes(OperatorId(i), *strategy[i]);
  }
  if (upstream != nullptr) seed(upstream->least);
  for (const Wiring& wiring : expanded_.wirings()) keep_communication(wiring);
  sort_tasks();
  find_heads();
  find_rests();
}

void PartialGraph::keep(TaskId first, std::size_t count) {
  if (first.valid()) std::fill_n(kept_.begin() + first.value, count, std::uint8_t{1});
}

void PartialGraph::keep_passes(OperatorId op, const BoundOperator& bound) {
  const OperatorTasks& tasks = expanded_.tasks_of(op);
  for (const auto& [first, work] :
       {std::pair(tasks.forward, &bound.forward), std::pair(tasks.backward_input, &bound.backward_input),
        std::pair(tasks.backward_weight, &bound.backward_weight)}) {
    if (!first.valid()) continue;
    keep(first, tasks_in(*work));
    std::fill_n(owner_.begin() + first.value, tasks_in(*work), op.value);
  }
  const std::vector<OperatorId>& users = update_needs_[op.index()];
  if (std::all_of(users.begin(), users.end(), [&](OperatorId user) { return settled_[user.index()]; })) {
    keep(tasks.update, tasks.update_devices().size());
  }
}

bool PartialGraph::all_settled(std::span<const UseRef> uses) const {
  return std::all_of(uses.begin(), uses.end(), [&](UseRef use) { return settled_[use.op.index()]; });
}

bool PartialGraph::settles(const Wiring& wiring) const {
  if (wiring.kind == TaskKind::GradientSync) return all_settled(model_.consumers(wiring.tensor));
  if (!all_settled(wiring.sources)) return false;
  if (wiring.kind == TaskKind::BackwardTransfer) return all_settled(wiring.destinations);
  return std::any_of(wiring.destinations.begin(), wiring.destinations.end(),
                     [&](UseRef use) { return settled_[use.op.index()]; });
}

void PartialGraph::keep_communication(const Wiring& wiring) {
  const bool settled = settles(wiring);
  if (settled) keep(wiring.first_task, wiring.plan->tasks.size());
  if (wiring.kind == TaskKind::BackwardTransfer) note_local(wiring, settled);
}

// A shard that adds gradients on its own device waits for their makers directly, so such edges don't go with
// tasks.
void PartialGraph::note_local(const Wiring& wiring, bool settled) {
  const OperatorId producer = wiring.destinations.front().op;
  if (!settled_[producer.index()]) return;
  const BoundOperator& bound = *(*strategy_)[producer.index()];
  const OperatorTasks& tasks = expanded_.tasks_of(producer);
  for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
    if (!first.valid()) continue;
    if (!settled) std::fill_n(open_.begin() + first.value, bound.config.devices.size(), std::uint8_t{1});
    for (std::size_t i = 0; settled && i < wiring.plan->local.size(); ++i) {
      const std::int32_t shard = bound.shard_of_device[wiring.plan->local[i].index()];
      for (const UseRef source : wiring.sources) {
        local_.emplace_back(source.op, TaskId(first.index() + static_cast<std::size_t>(shard)));
      }
    }
  }
}

bool PartialGraph::settled_edge(TaskId before, TaskId after) const {
  if (kept_[after.index()] == 0) return false;
  const std::int32_t owner = owner_[before.index()];
  if (open_[after.index()] == 0 || owner < 0 || owner == owner_[after.index()]) return true;
  return std::find(local_.begin(), local_.end(), std::pair(OperatorId(owner), after)) != local_.end();
}

void PartialGraph::seed(const UpstreamChoice& least) {
  std::size_t at = 0;
  for (const OperatorId op : boundary_) {
    const OperatorTasks& tasks = expanded_.tasks_of(op);
    for (std::size_t k = 0; k < (*strategy_)[op.index()]->config.devices.size(); ++k, ++at) {
      if (tasks.forward.valid()) head_[tasks.forward.index() + k] = least.release()[at];
      for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
        if (first.valid()) least_from_[first.index() + k] = std::max(least.path()[at], least.lane()[at]);
      }
    }
  }
}

// All edges between kept tasks count for the order, settled or not.
void PartialGraph::sort_tasks() {
  const auto kept = [&](TaskId task) { return kept_[task.index()] != 0; };
  const std::size_t roots = order_tasks(expanded_.dag(), all_tasks(), kept, missing_, order_);
  rooted_ =
      std::all_of(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(roots), [&](TaskId task) {
        const OperatorId owner(owner_[task.index()]);
        const bool boundary = std::find(boundary_.begin(), boundary_.end(), owner) != boundary_.end();
        return boundary && task.index() < expanded_.tasks_of(owner).forward.index() +
                                              (*strategy_)[owner.index()]->config.devices.size();
      });
}

void PartialGraph::find_heads() {
  raise_heads(
      expanded_.dag(), all_tasks(), order_,
      [&](TaskId before, TaskId after) { return settled_edge(before, after); }, head_);
}

void PartialGraph::find_rests() {
  raise_tails(
      expanded_.dag(), all_tasks(), order_,
      [&](TaskId before, TaskId after) { return settled_edge(before, after); },
      [&](TaskId after) { return rest_from(after); }, rest_);
}

Nanoseconds PartialGraph::settled_bound() {
  Nanoseconds longest = 0;
  for (const TaskId task : order_) longest = std::max(longest, head_[task.index()] + rest_from(task));
  collect_jobs();
  return std::max(longest, lanes_bound());
}

Nanoseconds PartialGraph::bound(Nanoseconds limit, std::vector<Nanoseconds>& by_origin) {
  longest_ = settled_bound();
  if (upstream_ == nullptr || longest_ >= limit) {
    std::fill(by_origin.begin(), by_origin.end(), longest_);
    return std::min(longest_, limit);
  }
  find_gradients();
  std::fill(by_origin.begin(), by_origin.end(), limit);
  for (const UpstreamChoice& choice : upstream_->choices) {
    Nanoseconds& least = by_origin[choice.origin];
    least = std::min(least, bound_with(choice, least));
  }
  return *std::min_element(by_origin.begin(), by_origin.end());
}

void PartialGraph::collect_jobs() {
  const TaskDag& dag = expanded_.dag();
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
    if (lane.size() > 1) longest = std::max(longest, one_machine_bound(lane, scratch_));
  }
  return longest;
}

void PartialGraph::find_gradients() {
  ready_.clear();
  busy_.clear();
  for (const OperatorId op : boundary_) {
    const BoundOperator& bound = *(*strategy_)[op.index()];
    const OperatorTasks& tasks = expanded_.tasks_of(op);
    for (std::size_t k = 0; k < bound.config.devices.size(); ++k) {
      Nanoseconds ready = INT64_MAX;
      for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
        if (first.valid()) ready = std::min(ready, head_[first.index() + k]);
      }
      if (ready == INT64_MAX) ready = 0;
      ready_.push_back(ready);
      busy_.push_back(busy_until(jobs_[bound.config.devices[k].index()], ready) - backward_time(bound, k));
    }
  }
}

// Everything that is settled starts later by at least the least difference between the choice's releases and
// those that the graph was built with.
Nanoseconds PartialGraph::bound_with(const UpstreamChoice& choice, Nanoseconds limit) const {
  const auto release = choice.release(), least = upstream_->least.release();
  const auto path = choice.path(), lane = choice.lane();
  Nanoseconds shift = rooted_ ? INT64_MAX : 0;
  for (std::size_t k = 0; k < release.size(); ++k) shift = std::min(shift, release[k] - least[k]);
  Nanoseconds longest = longest_ + shift;
  for (std::size_t k = 0; k < release.size() && longest < limit; ++k) {
    longest = std::max(longest, shift + std::max(ready_[k] + path[k], busy_[k] + lane[k]));
  }
  return longest;
}

void PartialGraph::distances_from(TaskId task, std::vector<Nanoseconds>& out) const {
  out.assign(expanded_.dag().num_tasks(), kNotReached);
  out[task.index()] = 0;
  raise_heads(
      expanded_.dag(), all_tasks(), order_,
      [&](TaskId before, TaskId after) { return settled_edge(before, after); }, out);
}

}  // namespace pipesim
