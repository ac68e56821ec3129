#include "search/additive/additive_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/deadline.h"
#include "taskgraph/binding/alike_operators.h"

namespace pipesim {
namespace {

double seconds_of_pass(const BoundOperator& bound, const PassWork& work) {
  if (!work.present) return 0;
  const std::size_t shards = bound.config.devices.size();
  Nanoseconds sum = 0;
  for (std::size_t stage = 0; stage < work.stages(); ++stage) {
    const auto begin = work.durations.begin() + static_cast<std::ptrdiff_t>(stage * shards);
    sum += *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(shards));
  }
  std::map<std::int32_t, Nanoseconds> slowest;  // by step
  for (const InnerExchange& e : work.exchanges) {
    Nanoseconds& most = slowest[e.step];
    most = std::max(most, e.task.duration);
  }
  for (const auto& [step, duration] : slowest) sum += duration;
  return to_seconds(sum).value;
}

// Returns how long the plan takes with nothing else on the links: its longest chain or its busiest lane.
double seconds_of_plan(const CommunicationPlan& plan) {
  Nanoseconds longest = 0;
  for (const LaneUse& use : plan.loads) longest = std::max(longest, use.hold);
  std::vector<Nanoseconds> ready(plan.tasks.size(), 0);
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    for (const std::int32_t before : plan.tasks[i].after)
      ready[i] = std::max(ready[i], ready[static_cast<std::size_t>(before)]);
    ready[i] += plan.tasks[i].duration;
    longest = std::max(longest, ready[i]);
  }
  return to_seconds(longest).value;
}

}  // namespace

AdditiveCosts::AdditiveCosts(const ConfigSpace& space, const MoveUnits& units, Evaluator& evaluator,
                             const std::vector<std::vector<std::size_t>>& starts, std::size_t most)
    : space_(space), evaluator_(evaluator), least_(evaluator.costs()) {
  for (std::size_t i = 0; i < space.num_operators(); ++i)
    others_.push_back(&bind(OperatorId(i), starts.front()[i]));
  list_units(units);
  list_flows();
  all_ = counts_of(std::vector<bool>(space.num_operators(), true));
  list_kinds_of_lists();
  if (most == 0) most = most_choices();
  for (std::size_t u = 0; u < units_.size(); ++u) choose(u, most, starts);
  for (Flow& f : flows_) {
    for (const Choice& from : units_[f.from].choices) {
      for (const Choice& to : units_[f.to].choices) {
        stop_if_late();
        if (f.from != f.to) f.time.push_back(flow_time(f, from.config, to.config, false));
      }
      if (f.from == f.to) f.time.push_back(flow_time(f, from.config, from.config, false));
    }
  }
}

void AdditiveCosts::list_units(const MoveUnits& units) {
  const std::vector<OperatorId> first = first_alike(evaluator_.graph());
  unit_of_.resize(first.size());
  summands_.resize(first.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit unit;
    for (const OperatorId op : units[u]) {
      unit_of_[op.index()] = u;
      const auto is_alike = [&](OperatorId other) { return first[other.index()] == first[op.index()]; };
      const auto it = std::ranges::find_if(unit.operators, is_alike);
      Summands& mine = summands_[op.index()];
      mine.unit = u;
      mine.number = static_cast<std::size_t>(it - unit.operators.begin());
      if (it == unit.operators.end()) unit.operators.push_back(op);
      for (const TensorId w : evaluator_.contents().backward().owned_weights(op))
        mine.weights.push_back(number_of_weight(unit, w));
      for (const TensorId w : evaluator_.contents().backward().frozen_weights(op)) {
        if (evaluator_.graph().tensor(w).frozen) mine.weights.push_back(number_of_weight(unit, w));
      }
    }
    units_.push_back(std::move(unit));
  }
}

// Weights of one shape, with as many uses, are synchronised alike.
std::size_t AdditiveCosts::number_of_weight(Unit& unit, TensorId weight) const {
  const OperatorGraph& graph = evaluator_.graph();
  const auto key = [&](TensorId w) {
    const std::span<const UseRef> uses = graph.consumers(w);
    const Tensor& tensor = graph.tensor(w);
    return std::tuple(uses.size(), uses.front().use, tensor.type, tensor.shape, tensor.frozen,
                      tensor.storage);
  };
  const auto it = std::ranges::find_if(unit.weights, [&](TensorId w) { return key(w) == key(weight); });
  const auto number = static_cast<std::size_t>(it - unit.weights.begin());
  if (it == unit.weights.end()) unit.weights.push_back(weight);
  return number;
}

void AdditiveCosts::list_flows() {
  const OperatorGraph& graph = evaluator_.graph();
  using Key =
      std::tuple<std::size_t, std::size_t, std::int32_t, std::int32_t, DataType, std::vector<std::int64_t>>;
  std::map<Key, std::size_t> known;
  const Recomputation& again = evaluator_.contents().recomputation();
  const auto keeps = [&](UseRef use) {
    return evaluator_.contents().versions().trained() && !again.reads_again(use) && !again.keeps_copy(use) &&
           graph.op(use.op).uses[static_cast<std::size_t>(use.use)].read_in_backward();
  };
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const TensorId tensor(t);
    const UseRef producer = evaluator_.contents().backward().producing_use(tensor);
    if (!producer.op.valid()) continue;
    for (const UseRef use : graph.consumers(tensor)) {
      const std::size_t from = unit_of_[producer.op.index()], to = unit_of_[use.op.index()];
      constexpr std::size_t kFew = 8;  // the parts of a concatenation travel alike
      const std::int32_t input = graph.op(use.op).uses.size() > kFew ? 0 : use.use;
      Key key{from, to, producer.use, input, graph.tensor(tensor).type, graph.tensor(tensor).shape};
      const auto [it, is_new] = known.try_emplace(std::move(key), flows_.size());
      if (is_new)
        flows_.push_back({from,
                          to,
                          tensor,
                          producer,
                          use,
                          keeps(use) ? std::ranges::count_if(graph.consumers(tensor), keeps) : 0,
                          {}});
      summands_[producer.op.index()].travels.push_back({it->second, use, tensor});
    }
  }
}

AdditiveCounts AdditiveCosts::counts_of(const std::vector<bool>& operators) const {
  AdditiveCounts counts;
  for (const Unit& u : units_) {
    counts.operators.emplace_back(u.operators.size(), 0);
    counts.weights.emplace_back(u.weights.size(), 0);
  }
  counts.tensors.assign(flows_.size(), 0);
  std::set<std::tuple<TensorId, std::size_t, std::int32_t>> seen;
  for (std::size_t op = 0; op < operators.size(); ++op) {
    if (!operators[op]) continue;
    const Summands& s = summands_[op];
    counts.operators[s.unit][s.number] += 1;
    for (const std::size_t w : s.weights) counts.weights[s.unit][w] += 1;
    seen.clear();
    for (const Travel& t : s.travels) {
      const std::size_t reader = t.consumer.op.index();
      if (operators[reader] && seen.emplace(t.tensor, unit_of_[reader], t.consumer.use).second)
        counts.tensors[t.flow] += 1;  // a unit gets it once
    }
  }
  return counts;
}

AdditiveCosts::Choice AdditiveCosts::choice_of(std::size_t unit, std::size_t config) {
  Choice choice{config, {}, {}, {}, {}};
  for (const OperatorId op : units_[unit].operators) {
    const BoundOperator& b = bind(op, config);
    const double forward = seconds_of_pass(b, b.forward);
    const int runs = evaluator_.contents().recomputation().again(op) ? 2 : 1;
    choice.compute.push_back(runs * forward + seconds_of_pass(b, b.backward_input) +
                             seconds_of_pass(b, b.backward_weight));
  }
  for (const TensorId w : units_[unit].weights) {
    const bool frozen = evaluator_.graph().tensor(w).frozen;
    choice.sync.push_back({frozen ? 0 : sync_time(unit, w, config, false), frozen});
  }
  return choice;
}

// Synchronisation is hidden in part.
double AdditiveCosts::cost_alone(std::size_t unit, const Choice& choice) {
  constexpr double kSyncShare = 0.3;
  double cost = compute_of(unit, choice, all_) + kSyncShare * sync_of(unit, choice, all_);
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    if (flows_[f].from == unit && flows_[f].to == unit)
      cost += all_.tensors[f] * flow_time(flows_[f], choice.config, choice.config, false).seconds;
  }
  return cost;
}

const BoundOperator& AdditiveCosts::bind(OperatorId op, std::size_t config) const {
  return *evaluator_.contents().bind(op, space_.config(op, config));
}

double AdditiveCosts::compute_of(std::size_t unit, const Choice& choice, const AdditiveCounts& counts) const {
  double sum = 0;
  for (std::size_t i = 0; i < choice.compute.size(); ++i)
    sum += counts.operators[unit][i] * choice.compute[i];
  return sum;
}

double AdditiveCosts::sync_of(std::size_t unit, const Choice& choice, const AdditiveCounts& counts) const {
  double sum = 0;
  for (std::size_t w = 0; w < choice.sync.size(); ++w)
    sum += counts.weights[unit][w] * choice.sync[w].seconds;
  return sum;
}

bool AdditiveCosts::counts(std::size_t unit, const AdditiveCounts& counts) const {
  return std::ranges::any_of(counts.operators[unit], [](double n) { return n > 0; });
}

// Returns how often a microbatch counts the synchronisation of its weights, gathers included.
double AdditiveCosts::syncs() const {
  const PlanOptions& options = evaluator_.contents().options();
  const StateSharding& sharding = options.state_sharding;
  const double once = 1.0 / options.microbatches;
  const double gathers = sharding.gathers_to_use() ? sharding.gathers_each_microbatch()
                         : sharding.any()          ? once
                                                   : 0;
  return (sharding.each_microbatch() ? 1 : once) + gathers;
}

std::vector<double> AdditiveCosts::load(std::size_t unit, std::size_t config) const {
  std::vector<double> load(evaluator_.topology().num_devices(), 0);
  const Unit& mine = units_[unit];
  for (std::size_t i = 0; i < mine.operators.size(); ++i) {
    for (const LaneUse use : bind(mine.operators[i], config).loads) {
      if (use.lane.index() < load.size())
        load[use.lane.index()] += all_.operators[unit][i] * to_seconds(use.hold).value;
    }
  }
  return load;
}

double AdditiveCosts::least_time(TensorId tensor, TaskKind kind, std::span<const LayoutId> terms,
                                 LayoutId target) {
  const PlanContents& contents = evaluator_.contents();
  const Moved moved = kind == TaskKind::BackwardTransfer ? Moved::Gradient : Moved::Data;
  const CommunicationPlans::Setting setting =
      kind == TaskKind::GradientSync ? contents.sync_setting() : contents.transfer_setting(tensor, moved);
  const std::int64_t bytes = setting.least_element_bytes();
  std::vector<std::int64_t> key{bytes, static_cast<std::int64_t>(target.index())};
  for (const LayoutId t : terms) key.push_back(static_cast<std::int64_t>(t.index()));
  const auto [it, is_new] = bounds_.try_emplace(std::move(key), 0);
  if (is_new) {
    least_.clear();
    least_.add(contents.layouts(), terms, target, bytes);
    it->second = least_.longest().value;
  }
  return it->second;
}

// visit() while the weight's uses in the unit have the config.
void AdditiveCosts::with_config(std::size_t unit, TensorId weight, std::size_t config,
                                const std::function<void()>& visit) {
  std::vector<std::pair<OperatorId, const BoundOperator*>> before;
  for (const UseRef use : evaluator_.graph().consumers(weight)) {
    if (unit_of_[use.op.index()] != unit) continue;
    before.emplace_back(use.op, std::exchange(others_[use.op.index()], &bind(use.op, config)));
  }
  visit();
  for (auto b = before.rbegin(); b != before.rend(); ++b) others_[b->first.index()] = b->second;
}

double AdditiveCosts::sync_time(std::size_t unit, TensorId weight, std::size_t config, bool planned) {
  const PlanContents& contents = evaluator_.contents();
  double time = 0;
  with_config(unit, weight, config, [&] {
    if (planned) {
      ++planned_;
      time = seconds_of_plan(contents.sync_plan(weight, others_));
    } else {
      LayoutIds terms;
      contents.list_gradient_terms(weight, others_, terms);
      time = least_time(weight, TaskKind::GradientSync, terms, contents.home_of(weight, others_));
    }
  });
  return time;
}

double AdditiveCosts::transfer_time(TensorId tensor, Moved moved, LayoutId from, LayoutId target,
                                    bool planned) {
  const TaskKind kind = moved == Moved::Data ? TaskKind::ForwardTransfer : TaskKind::BackwardTransfer;
  if (!planned) return least_time(tensor, kind, std::span(&from, 1), target);
  ++planned_;
  return seconds_of_plan(evaluator_.contents().transfer_plan(tensor, std::span(&from, 1), target, moved));
}

AdditiveCosts::Time AdditiveCosts::flow_time(const Flow& flow, std::size_t from_config, std::size_t to_config,
                                             bool planned) {
  const BoundOperator& maker = bind(flow.producer.op, from_config);
  const BoundOperator& user = bind(flow.consumer.op, to_config);
  const auto made = static_cast<std::size_t>(flow.producer.use),
             used = static_cast<std::size_t>(flow.consumer.use);
  const LayoutId data = maker.data_layout[made];
  const int runs = evaluator_.contents().recomputation().again(flow.consumer.op) ? 2 : 1;
  const double forward = transfer_time(flow.tensor, Moved::Data, data, user.data_layout[used], planned);
  Time time{runs * forward, planned};
  if (forward > 0 && flow.keepers > 0) time.kept = kept_bytes(flow, data, user.data_layout[used], planned);
  const BackwardUses& backward = evaluator_.contents().backward();
  if (backward.has_backward(flow.tensor) && backward.makes_gradient(flow.consumer)) {
    const LayoutId gradient = user.gradient_layout[used];
    time.seconds +=
        transfer_time(flow.tensor, Moved::Gradient, gradient, maker.gradient_layout[made], planned);
  }
  return time;
}

IntraInstance AdditiveCosts::instance(const AdditiveWeights& weights, const AdditiveCounts& part) const {
  const double sync = weights.synchronisation * syncs();
  IntraInstance instance;
  instance.unit = kUnit;
  const auto picoseconds = [](double seconds) {
    return std::min(kForbidden, static_cast<std::int64_t>(std::llround(seconds / kUnit)));
  };
  for (std::size_t u = 0; u < units_.size(); ++u) {
    IntraInstance::Node& node = instance.nodes.emplace_back();
    const std::vector<Choice>& choices = units_[u].choices;
    node.cost.assign(counts(u, part) ? choices.size() : 1, 0);
    node.usage.assign(node.cost.size(), 0);
    if (!counts(u, part)) continue;
    const auto is_short = [&](const Choice& c) { return compute_of(u, c, part) <= weights.longest.value; };
    const bool some_short = std::ranges::any_of(choices, is_short);
    for (std::size_t c = 0; c < choices.size(); ++c) {
      double mean = 0;
      for (const double l : choices[c].load) mean += l / static_cast<double>(choices[c].load.size());
      const double compute =
          weights.sequential * compute_of(u, choices[c], part) + (1 - weights.sequential) * mean;
      node.cost[c] = some_short && !is_short(choices[c])
                         ? kForbidden
                         : picoseconds(compute + sync * sync_of(u, choices[c], part));
    }
  }
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    const Flow& f = flows_[i];
    const double times = weights.transfers * part.tensors[i];
    if (part.tensors[i] == 0) continue;
    if (f.from == f.to) {
      for (std::size_t c = 0; c < f.time.size(); ++c) {
        std::int64_t& cost = instance.nodes[f.from].cost[c];
        cost = std::min(kForbidden, cost + picoseconds(times * f.time[c].seconds));
      }
      continue;
    }
    IntraInstance::Edge& edge = instance.edges.emplace_back();
    edge.a = static_cast<std::uint32_t>(f.from);
    edge.b = static_cast<std::uint32_t>(f.to);
    for (const Time& time : f.time) edge.cost.push_back(picoseconds(times * time.seconds));
  }
  return instance;
}

bool AdditiveCosts::plan(const std::vector<std::uint32_t>& choice, const AdditiveCounts& part) {
  bool any = false;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    Choice& c = units_[u].choices[choice[u]];
    for (std::size_t w = 0; w < c.sync.size(); ++w) {
      if (c.sync[w].planned || part.weights[u][w] == 0) continue;
      stop_if_late();
      c.sync[w] = {sync_time(u, units_[u].weights[w], c.config, true), true};
      any = true;
    }
  }
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    Flow& f = flows_[i];
    const std::size_t from = choice[f.from], to = choice[f.to];
    Time& time = f.time[f.from == f.to ? from : from * units_[f.to].choices.size() + to];
    if (time.planned || part.tensors[i] == 0) continue;
    stop_if_late();
    time = flow_time(f, units_[f.from].choices[from].config, units_[f.to].choices[to].config, true);
    any = true;
  }
  return any;
}

// Calls visit_weight(unit, choice, weight) and visit_flow(flow, choice of from, choice of to, entry).
template <class Weights, class Flows>
void AdditiveCosts::unplanned(const NarrowedChoices& within, const AdditiveCounts& part, Weights visit_weight,
                              Flows visit_flow) const {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (!counts(u, part)) continue;
    for (std::size_t c = 0; c < units_[u].choices.size(); ++c) {
      const std::vector<Time>& sync = units_[u].choices[c].sync;
      for (std::size_t w = 0; within.strategies[u][c] && w < sync.size(); ++w) {
        if (part.weights[u][w] > 0 && !sync[w].planned) visit_weight(u, c, w);
      }
    }
  }
  std::size_t edge = 0;  // of the instance
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    const Flow& f = flows_[i];
    if (part.tensors[i] == 0) continue;
    const bool inside = f.from == f.to;
    const std::vector<bool>& kept = inside ? within.strategies[f.from] : within.pairs[edge++];
    const std::size_t columns = inside ? 1 : units_[f.to].choices.size();
    for (std::size_t t = 0; t < f.time.size(); ++t) {
      if (kept[t] && !f.time[t].planned) visit_flow(i, t / columns, inside ? t : t % columns, t);
    }
  }
}

std::size_t AdditiveCosts::to_plan(const NarrowedChoices& within, const AdditiveCounts& part) const {
  std::size_t number = 0;
  const auto count = [&](auto...) { ++number; };
  unplanned(within, part, count, count);
  return number;
}

void AdditiveCosts::plan_all(const NarrowedChoices& within, const AdditiveCounts& part) {
  unplanned(
      within, part,
      [&](std::size_t u, std::size_t c, std::size_t w) {
        stop_if_late();
        Choice& choice = units_[u].choices[c];
        choice.sync[w] = {sync_time(u, units_[u].weights[w], choice.config, true), true};
      },
      [&](std::size_t i, std::size_t from, std::size_t to, std::size_t entry) {
        stop_if_late();
        Flow& f = flows_[i];
        f.time[entry] =
            flow_time(f, units_[f.from].choices[from].config, units_[f.to].choices[to].config, true);
      });
}

std::vector<std::size_t> AdditiveCosts::configs(const std::vector<std::uint32_t>& choice) const {
  std::vector<std::size_t> configs;
  for (const std::size_t u : unit_of_) configs.push_back(units_[u].choices[choice[u]].config);
  return configs;
}

std::vector<std::size_t> AdditiveCosts::spread(const std::vector<std::uint32_t>& choice) {
  const CandidateSet& candidates = space_.candidates();
  std::vector<double> busy(evaluator_.topology().num_devices(), 0);
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t u = 0; u < units_.size(); ++u)
    order.emplace_back(-compute_of(u, units_[u].choices[choice[u]], all_), u);
  std::ranges::sort(order);
  std::vector<std::size_t> chosen(units_.size());
  for (const auto& [compute, u] : order) {
    const OperatorId op = units_[u].operators.front();
    CandidateSet::Position p = candidates.position(op, units_[u].choices[choice[u]].config);
    const std::vector<std::size_t>& nodes = nodes_of_list_[p.size];
    const std::size_t wanted = nodes[p.list];
    std::pair<double, double> least{-1, 0};
    std::vector<double> best;
    for (p.list = 0; p.list < nodes.size(); ++p.list) {
      if (nodes[p.list] != wanted) continue;
      const std::size_t config = candidates.index(op, p);
      std::vector<double> then = load(u, config);
      double squares = 0;
      for (std::size_t d = 0; d < then.size(); ++d) {
        then[d] += busy[d];
        squares += then[d] * then[d];
      }
      const std::pair now{*std::ranges::max_element(then), squares};
      if (!best.empty() && now >= least) continue;
      least = now;
      best = std::move(then);
      chosen[u] = config;
    }
    busy = std::move(best);
  }
  std::vector<std::size_t> configs;
  for (const std::size_t u : unit_of_) configs.push_back(chosen[u]);
  return configs;
}

}  // namespace pipesim
