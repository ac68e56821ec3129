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

// With nothing else on the links: its longest chain or its busiest lane.
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
                             const std::vector<std::vector<std::size_t>>& starts)
    : space_(space), evaluator_(evaluator), least_(evaluator.costs()) {
  for (std::size_t i = 0; i < space.num_operators(); ++i)
    others_.push_back(&bind(OperatorId(i), starts.front()[i]));
  list_units(units);
  list_flows();
  list_kinds_of_lists();
  const std::size_t most = most_choices();
  for (std::size_t u = 0; u < units_.size(); ++u) choose(u, most, starts);
  for (Flow& f : flows_) {
    for (const Choice& from : units_[f.from].choices) {
      for (const Choice& to : units_[f.to].choices) {
        stop_if_late();
        if (f.from != f.to) f.time.push_back({flow_time(f, from.config, to.config, false)});
      }
      if (f.from == f.to) f.time.push_back({flow_time(f, from.config, from.config, false)});
    }
  }
}

void AdditiveCosts::list_units(const MoveUnits& units) {
  const std::vector<OperatorId> first = first_alike(evaluator_.graph());
  unit_of_.resize(first.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit unit;
    for (const OperatorId op : units[u]) {
      unit_of_[op.index()] = u;
      const auto is_alike = [&](const auto& m) { return first[m.first.index()] == first[op.index()]; };
      const auto it = std::ranges::find_if(unit.members, is_alike);
      if (it == unit.members.end()) {
        unit.members.emplace_back(op, 1);
      } else {
        it->second += 1;
      }
      for (const TensorId w : evaluator_.contents().backward().owned_weights(op)) add_weight(unit, w);
    }
    units_.push_back(std::move(unit));
  }
}

// Weights of one shape, with as many uses, are synchronised alike.
void AdditiveCosts::add_weight(Unit& unit, TensorId weight) const {
  const OperatorGraph& graph = evaluator_.graph();
  const auto key = [&](TensorId w) {
    const std::span<const UseRef> uses = graph.consumers(w);
    return std::tuple(uses.size(), uses.front().use, graph.tensor(w).type, graph.tensor(w).shape);
  };
  const auto is_alike = [&](const Weight& w) { return key(w.weight) == key(weight); };
  const auto it = std::ranges::find_if(unit.weights, is_alike);
  if (it == unit.weights.end()) {
    unit.weights.push_back({weight, 1});
  } else {
    it->alike += 1;
  }
}

void AdditiveCosts::list_flows() {
  const OperatorGraph& graph = evaluator_.graph();
  using Key =
      std::tuple<std::size_t, std::size_t, std::int32_t, std::int32_t, DataType, std::vector<std::int64_t>>;
  std::map<Key, std::size_t> known;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const TensorId tensor(t);
    const UseRef producer = evaluator_.contents().backward().producing_use(tensor);
    if (!producer.op.valid()) continue;
    std::set<std::pair<std::size_t, std::int32_t>> seen;
    for (const UseRef use : graph.consumers(tensor)) {
      const std::size_t from = unit_of_[producer.op.index()], to = unit_of_[use.op.index()];
      if (!seen.emplace(to, use.use).second) continue;  // it travels there once
      constexpr std::size_t kFew = 8;                   // the parts of a concatenation travel alike
      const std::int32_t input = graph.op(use.op).uses.size() > kFew ? 0 : use.use;
      Key key{from, to, producer.use, input, graph.tensor(tensor).type, graph.tensor(tensor).shape};
      const auto [it, is_new] = known.try_emplace(std::move(key), flows_.size());
      if (is_new) flows_.push_back({from, to, tensor, producer, use, 0, {}});
      flows_[it->second].tensors += 1;
    }
  }
}

void AdditiveCosts::list_kinds_of_lists() {
  const CandidateSet& candidates = space_.candidates();
  for (std::size_t size = 0; size < candidates.num_sizes(); ++size) {
    nodes_of_list_.emplace_back();
    for (std::size_t l = 0; l < candidates.num_lists(size); ++l) {
      std::set<std::int32_t> nodes;
      for (const DeviceId d : candidates.list(size, l).devices)
        nodes.insert(evaluator_.topology().device(d).node);
      nodes_of_list_.back().push_back(nodes.size());
    }
  }
}

// So that bounding all pairs and eliminating units stays short.
std::size_t AdditiveCosts::most_choices() const {
  constexpr double kPairs = 40'000;  // of 64 devices
  constexpr double kEliminated = 4'000'000;
  constexpr double kFewest = 8, kMost = 48;
  const auto apart = std::ranges::count_if(flows_, [](const Flow& f) { return f.from != f.to; });
  const double devices = static_cast<double>(evaluator_.topology().num_devices());
  const double pairs = std::sqrt(kPairs * 64 / devices / static_cast<double>(apart + 1));
  const double triples = std::cbrt(kEliminated / static_cast<double>(units_.size()));
  return static_cast<std::size_t>(std::clamp(std::min(pairs, triples), kFewest, kMost));
}

// The largest shard's passes, without binding the config.
double AdditiveCosts::estimate(OperatorId op, const ParallelConfig& config) const {
  const OperatorGraph& graph = evaluator_.graph();
  std::vector<Range> ranges;
  ShardGrid(graph.op(op), config).ranges(0, ranges);
  double sum = 0;
  for (const Pass pass : {Pass::Forward, Pass::BackwardInput})
    sum += evaluator_.costs().operator_time(graph, graph.op(op), pass, ranges, config.devices.front()).value;
  return sum;
}

// On the first list of each size and number of nodes.
std::vector<std::size_t> AdditiveCosts::fastest(OperatorId op, std::size_t most) const {
  const CandidateSet& candidates = space_.candidates();
  std::vector<std::pair<double, std::size_t>> ranked;
  for (std::size_t size = 0; size < candidates.num_sizes(); ++size) {
    const std::vector<std::size_t>& nodes = nodes_of_list_[size];
    for (std::size_t l = 0; l < nodes.size(); ++l) {
      if (std::ranges::find(nodes, nodes[l]) != nodes.begin() + static_cast<std::ptrdiff_t>(l)) continue;
      for (std::size_t s = 0; s < candidates.num_splits(op, size); ++s) {
        const std::size_t config = candidates.index(op, {size, l, s});
        stop_if_late();
        ranked.emplace_back(estimate(op, space_.config(op, config)), config);
      }
    }
  }
  std::ranges::sort(ranked);
  std::vector<std::size_t> configs;
  for (std::size_t i = 0; i < std::min(most, ranked.size()); ++i) configs.push_back(ranked[i].second);
  return configs;
}

void AdditiveCosts::choose(std::size_t unit, std::size_t most,
                           const std::vector<std::vector<std::size_t>>& starts) {
  constexpr std::size_t kLookedAt = 3;  // times as many as are chosen
  constexpr double kSyncShare = 0.3;
  Unit& mine = units_[unit];
  const OperatorId op = mine.members.front().first;
  std::vector<std::pair<double, Choice>> ranked;
  std::set<std::size_t> seen;
  for (const std::vector<std::size_t>& start : starts) {
    const std::size_t config = start[op.index()];
    if (config >= space_.candidates().size(op) || !seen.insert(config).second) continue;
    ranked.emplace_back(0, Choice{config, compute(mine, config), {}, {sync_time(unit, config, false)}});
  }
  most = std::max(most, ranked.size());
  for (const std::size_t config : fastest(op, kLookedAt * most)) {
    if (!seen.insert(config).second) continue;
    stop_if_late();
    Choice choice{config, compute(mine, config), {}, {sync_time(unit, config, false)}};
    double cost = choice.compute + kSyncShare * choice.sync.seconds;
    for (const Flow& f : flows_) {
      if (f.from == unit && f.to == unit) cost += flow_time(f, config, config, false);
    }
    ranked.emplace_back(cost, std::move(choice));
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& r) { return r.first; });
  if (ranked.size() > most) ranked.erase(ranked.begin() + static_cast<std::ptrdiff_t>(most), ranked.end());
  for (auto& [cost, choice] : ranked) {
    choice.load = load(mine, choice.config);
    mine.choices.push_back(std::move(choice));
  }
}

const BoundOperator& AdditiveCosts::bind(OperatorId op, std::size_t config) const {
  return *evaluator_.contents().bind(op, space_.config(op, config));
}

double AdditiveCosts::compute(const Unit& unit, std::size_t config) const {
  double sum = 0;
  for (const auto& [op, alike] : unit.members) {
    const BoundOperator& b = bind(op, config);
    for (const PassWork* work : {&b.forward, &b.backward_input, &b.backward_weight})
      sum += alike * seconds_of_pass(b, *work);
  }
  return sum;
}

std::vector<double> AdditiveCosts::load(const Unit& unit, std::size_t config) const {
  std::vector<double> load(evaluator_.topology().num_devices(), 0);
  for (const auto& [op, alike] : unit.members) {
    for (const LaneUse use : bind(op, config).loads) {
      if (use.lane.index() < load.size()) load[use.lane.index()] += alike * to_seconds(use.hold).value;
    }
  }
  return load;
}

double AdditiveCosts::least_time(TensorId tensor, TaskKind kind, std::span<const LayoutId> terms,
                                 LayoutId target) {
  const PlanContents& contents = evaluator_.contents();
  const std::int64_t bytes =
      (kind == TaskKind::GradientSync ? contents.sync_setting() : contents.transfer_setting(tensor))
          .element_bytes;
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
template <class Visit>
void AdditiveCosts::with_config(std::size_t unit, const Weight& weight, std::size_t config, Visit visit) {
  std::vector<std::pair<OperatorId, const BoundOperator*>> before;
  for (const UseRef use : evaluator_.graph().consumers(weight.weight)) {
    if (unit_of_[use.op.index()] != unit) continue;
    before.emplace_back(use.op, std::exchange(others_[use.op.index()], &bind(use.op, config)));
  }
  visit();
  for (auto b = before.rbegin(); b != before.rend(); ++b) others_[b->first.index()] = b->second;
}

double AdditiveCosts::sync_time(std::size_t unit, std::size_t config, bool planned) {
  const PlanContents& contents = evaluator_.contents();
  double sum = 0;
  for (const Weight& w : units_[unit].weights) {
    with_config(unit, w, config, [&] {
      if (planned) {
        ++planned_;
        sum += w.alike * seconds_of_plan(contents.sync_plan(w.weight, others_));
      } else {
        LayoutIds terms;
        contents.list_gradient_terms(w.weight, others_, terms);
        sum += w.alike *
               least_time(w.weight, TaskKind::GradientSync, terms, contents.home_of(w.weight, others_));
      }
    });
  }
  return sum;
}

// By device, as WeightUpdates counts it.
void AdditiveCosts::add_state(TensorId weight, std::int64_t times, std::vector<Bytes>& held) const {
  const PlanContents& contents = evaluator_.contents();
  const PlanOptions& options = contents.options();
  const StateSharding& sharding = options.state_sharding;
  const DataType kept = sharding.kept_type(evaluator_.graph().tensor(weight).type);
  const auto add = [&](LayoutId id, auto part) {
    const Layout& layout = contents.layouts()[id];
    for (const LayoutEntry& e : layout.entries())
      held[e.device.index()] +=
          times * part(CostModel::weight_memory(layout.box(e).elements(), kept, options.gradient_type,
                                                options.optimizer));
  };
  const LayoutId whole = contents.home_of(weight, others_), divided = contents.state_of(weight, others_);
  add(sharding.gathers_to_use() ? divided : whole, [](const WeightMemory& m) { return m.weights; });
  add(sharding.each_microbatch() ? divided : whole, [](const WeightMemory& m) { return m.gradients; });
  add(divided, [](const WeightMemory& m) { return m.optimizer_state; });
}

// Results that backward reads, and what else is saved, unless forward runs again.
void AdditiveCosts::add_kept(const Unit& unit, std::size_t config, std::vector<Bytes>& held) const {
  const OperatorGraph& graph = evaluator_.graph();
  if (!evaluator_.contents().versions().trained()) return;
  for (const auto& [op, alike] : unit.members) {
    if (evaluator_.contents().recomputation().again(op)) continue;
    const BoundOperator& b = bind(op, config);
    const bool is_read = std::ranges::any_of(b.op->uses, [&](const TensorUse& use) {
      if (use.role != Role::Output) return false;
      return use.saved || std::ranges::any_of(graph.consumers(use.tensor), [&](UseRef reader) {
               return graph.op(reader.op).uses[static_cast<std::size_t>(reader.use)].read_in_backward();
             });
    });
    for (std::size_t k = 0; k < b.memory.size(); ++k)
      held[b.config.devices[k].index()] +=
          static_cast<std::int64_t>(alike) * (b.memory[k].saved + (is_read ? b.memory[k].outputs : Bytes(0)));
  }
}

std::vector<std::vector<Bytes>> AdditiveCosts::held() {
  std::vector<std::vector<Bytes>> most(units_.size());
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (const Choice& choice : units_[u].choices) {
      std::vector<Bytes> held(evaluator_.topology().num_devices());
      add_kept(units_[u], choice.config, held);
      for (const Weight& w : units_[u].weights)
        with_config(u, w, choice.config,
                    [&] { add_state(w.weight, static_cast<std::int64_t>(w.alike), held); });
      most[u].push_back(std::ranges::max(held));
    }
  }
  return most;
}

double AdditiveCosts::transfer_time(TensorId tensor, std::span<const LayoutId> terms, LayoutId target,
                                    bool planned) {
  if (!planned) return least_time(tensor, TaskKind::ForwardTransfer, terms, target);
  ++planned_;
  return seconds_of_plan(evaluator_.contents().transfer_plan(tensor, terms, target));
}

double AdditiveCosts::flow_time(const Flow& flow, std::size_t from_config, std::size_t to_config,
                                bool planned) {
  const BoundOperator& maker = bind(flow.producer.op, from_config);
  const BoundOperator& user = bind(flow.consumer.op, to_config);
  const auto made = static_cast<std::size_t>(flow.producer.use),
             used = static_cast<std::size_t>(flow.consumer.use);
  const LayoutId data = maker.data_layout[made];
  double sum = transfer_time(flow.tensor, std::span(&data, 1), user.data_layout[used], planned);
  const BackwardUses& backward = evaluator_.contents().backward();
  if (backward.has_backward(flow.tensor) && backward.makes_gradient(flow.consumer)) {
    const LayoutId gradient = user.gradient_layout[used];
    sum += transfer_time(flow.tensor, std::span(&gradient, 1), maker.gradient_layout[made], planned);
  }
  return flow.tensors * sum;
}

MinSumProblem AdditiveCosts::problem(const AdditiveWeights& weights) const {
  constexpr double kTooLong = 1e6;  // seconds
  const PlanOptions& options = evaluator_.contents().options();
  const double sync = weights.synchronisation / options.microbatches;  // once for all of them
  MinSumProblem problem;
  for (const Unit& u : units_) {
    const auto is_short = [&](const Choice& c) { return c.compute <= weights.longest.value; };
    const bool some_short = std::ranges::any_of(u.choices, is_short);
    problem.own.emplace_back();
    for (const Choice& c : u.choices) {
      double mean = 0;
      for (const double l : c.load) mean += l / static_cast<double>(c.load.size());
      problem.own.back().push_back(weights.sequential * c.compute + (1 - weights.sequential) * mean +
                                   sync * c.sync.seconds + (some_short && !is_short(c) ? kTooLong : 0));
    }
  }
  for (const Flow& f : flows_) {
    if (f.from == f.to) {
      for (std::size_t c = 0; c < f.time.size(); ++c)
        problem.own[f.from][c] += weights.transfers * f.time[c].seconds;
      continue;
    }
    const std::size_t rows = units_[f.from].choices.size(), columns = units_[f.to].choices.size();
    MinSumProblem::Pair pair{std::min(f.from, f.to), std::max(f.from, f.to), {}};
    pair.cost.resize(rows * columns);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j)
        pair.cost[f.from < f.to ? i * columns + j : j * rows + i] =
            weights.transfers * f.time[i * columns + j].seconds;
    }
    problem.pairs.push_back(std::move(pair));
  }
  return problem;
}

AdditiveCosts::Time& AdditiveCosts::time_of(Flow& flow, const std::vector<std::size_t>& choice) const {
  if (flow.from == flow.to) return flow.time[choice[flow.from]];
  return flow.time[choice[flow.from] * units_[flow.to].choices.size() + choice[flow.to]];
}

bool AdditiveCosts::plan(const std::vector<std::size_t>& choice) {
  bool any = false;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    Choice& c = units_[u].choices[choice[u]];
    if (c.sync.planned) continue;
    c.sync = {sync_time(u, c.config, true), true};
    any = true;
  }
  for (Flow& f : flows_) {
    Time& time = time_of(f, choice);
    if (time.planned) continue;
    time = {flow_time(f, units_[f.from].choices[choice[f.from]].config,
                      units_[f.to].choices[choice[f.to]].config, true),
            true};
    any = true;
  }
  return any;
}

void AdditiveCosts::plan_all() {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (Choice& c : units_[u].choices) {
      stop_if_late();
      if (!c.sync.planned) c.sync = {sync_time(u, c.config, true), true};
    }
  }
  for (Flow& f : flows_) {
    const std::vector<Choice>&from = units_[f.from].choices, &to = units_[f.to].choices;
    for (std::size_t i = 0; i < f.time.size(); ++i) {
      stop_if_late();
      const Choice& maker = f.from == f.to ? from[i] : from[i / to.size()];
      const Choice& user = f.from == f.to ? from[i] : to[i % to.size()];
      if (!f.time[i].planned) f.time[i] = {flow_time(f, maker.config, user.config, true), true};
    }
  }
}

std::vector<std::size_t> AdditiveCosts::configs(const std::vector<std::size_t>& choice) const {
  std::vector<std::size_t> configs;
  for (const std::size_t u : unit_of_) configs.push_back(units_[u].choices[choice[u]].config);
  return configs;
}

std::vector<std::size_t> AdditiveCosts::spread(const std::vector<std::size_t>& choice) {
  const CandidateSet& candidates = space_.candidates();
  std::vector<double> busy(evaluator_.topology().num_devices(), 0);
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t u = 0; u < units_.size(); ++u)
    order.emplace_back(-units_[u].choices[choice[u]].compute, u);
  std::ranges::sort(order);
  std::vector<std::size_t> chosen(units_.size());
  for (const auto& [compute, u] : order) {
    const OperatorId op = units_[u].members.front().first;
    CandidateSet::Position p = candidates.position(op, units_[u].choices[choice[u]].config);
    const std::vector<std::size_t>& nodes = nodes_of_list_[p.size];
    const std::size_t wanted = nodes[p.list];
    std::pair<double, double> least{-1, 0};
    std::vector<double> best;
    for (p.list = 0; p.list < nodes.size(); ++p.list) {
      if (nodes[p.list] != wanted) continue;
      const std::size_t config = candidates.index(op, p);
      std::vector<double> then = load(units_[u], config);
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
