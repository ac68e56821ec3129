#include "search/recipe_planner/mesh_costs.h"

#include <algorithm>
#include <bitset>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "search/recipes/expand_recipe.h"
#include "sim/base/deadline.h"
#include "taskgraph/binding/backward_uses.h"
#include "taskgraph/binding/bound_operators.h"
#include "taskgraph/moving/communication_plan_table.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kNoChain = -1;  // no chain leads there
constexpr Bytes kWhole{INT64_MAX / 2};

// By shard: the end of the longest chain, or kNoChain.
using Moments = std::vector<Nanoseconds>;

Nanoseconds after(Nanoseconds moment, Nanoseconds duration) {
  return moment == kNoChain ? kNoChain : moment + duration;
}

Nanoseconds least(const Moments& moments) {
  return moments.empty() ? kNoChain : *std::ranges::min_element(moments);
}

// A pass of one shard: its stages follow one another.
Nanoseconds duration_of(const PassWork& work, std::size_t shard, std::size_t shards) {
  Nanoseconds sum = 0;
  for (std::size_t i = shard; i < work.durations.size(); i += shards) sum += work.durations[i];
  return sum;
}

// What provides data for a transfer: an operator's shards, and when they have made it.
struct Maker {
  const BoundOperator* bound;
  const Moments* made;
  std::int32_t term;
};

// By shard of the reader: when what the plan brings is there.
Moments arrivals_of(const CommunicationPlan& plan, const std::vector<Maker>& makers,
                    const BoundOperator& reader) {
  const auto raise = [](Nanoseconds& moment, Nanoseconds other) { moment = std::max(moment, other); };
  Moments ends(plan.expansion.tasks.size(), kNoChain);
  for (const PlanExpansion::Contribution& c : plan.expansion.contributions) {
    for (const Maker& maker : makers) {
      const std::int32_t shard = maker.bound->shard_of_device[c.device.index()];
      if (shard >= 0 && (c.term < 0 || c.term == maker.term))
        raise(ends[static_cast<std::size_t>(c.task)], (*maker.made)[static_cast<std::size_t>(shard)]);
    }
  }
  std::vector<std::vector<std::int32_t>> waits(ends.size());
  for (const PlanExpansion::Wait& w : plan.expansion.waits)
    waits[static_cast<std::size_t>(w.after)].push_back(w.before);
  for (std::size_t t = 0; t < ends.size(); ++t) {  // a task waits for earlier ones
    for (const std::int32_t before : waits[t]) raise(ends[t], ends[static_cast<std::size_t>(before)]);
    ends[t] = after(ends[t], plan.expansion.tasks[t].duration);
  }
  Moments there(reader.config.devices.size(), kNoChain);
  for (const PlanExpansion::Arrival& a : plan.expansion.arrivals) {
    const std::int32_t shard = reader.shard_of_device[a.device.index()];
    if (shard >= 0) raise(there[static_cast<std::size_t>(shard)], ends[static_cast<std::size_t>(a.task)]);
  }
  for (const DeviceId d : plan.local) {
    const std::int32_t shard = reader.shard_of_device[d.index()];
    for (const Maker& maker : makers) {
      const std::int32_t from = maker.bound->shard_of_device[d.index()];
      if (shard >= 0 && from >= 0)
        raise(there[static_cast<std::size_t>(shard)], (*maker.made)[static_cast<std::size_t>(from)]);
    }
  }
  return there;
}

}  // namespace

// The bound operators of a mesh on one group of devices; layouts and plans of all meshes.
class MeshMeter::Tables {
 public:
  Tables(const RecipeModel& model, const CostModel& costs, PlanOptions options)
      : model_(model),
        graph_(model.graph()),
        costs_(costs),
        options_(std::move(options)),
        loads_(graph_, options_.imbalance),
        prices_([&costs] { return CommunicationPrices(costs); }),
        operators_(graph_, layouts_, prices_, loads_),
        plans_(layouts_, prices_),
        backward_(graph_, true),
        bound_(graph_.operators().size(), nullptr) {}

  void begin(const Recipe& mesh, std::int64_t group) {
    constexpr Bytes kMostOfTables(300'000'000);
    if (plans_.bytes() + layouts_.bytes() + operators_.bytes() > kMostOfTables) {
      operators_.clear();
      plans_.clear();
      layouts_.clear();
    }
    mesh_ = &mesh;
    group_ = group;
    std::ranges::fill(bound_, nullptr);
  }

  void bind(const std::vector<OperatorId>& ops) {
    std::vector<OperatorId> open;
    for (const OperatorId op : ops) {
      if (bound_[op.index()] == nullptr) open.push_back(op);
    }
    const auto configs = configs_on_group(*mesh_, model_, costs_.topology(), open, group_);
    for (std::size_t i = 0; i < open.size(); ++i)
      bound_[open[i].index()] = operators_.bind(open[i], configs[i]);
  }

  [[nodiscard]] const OperatorGraph& graph() const { return graph_; }
  [[nodiscard]] const PlanOptions& options() const { return options_; }
  [[nodiscard]] const Topology& topology() const { return costs_.topology(); }
  [[nodiscard]] const BackwardUses& backward() const { return backward_; }
  [[nodiscard]] const BoundOperator& operator[](OperatorId op) const { return *bound_[op.index()]; }
  [[nodiscard]] const LayoutTable& layouts() const { return layouts_; }
  [[nodiscard]] const BoundStrategy& strategy() const { return bound_; }
  [[nodiscard]] const CommunicationPlan& plan(TensorId tensor, const LayoutIds& terms, LayoutId target) {
    return plans_.between(terms, target, {bytes_per_element(graph_.tensor(tensor).type), kWhole});
  }
  [[nodiscard]] CommunicationPlans& plans() { return plans_; }

 private:
  const RecipeModel& model_;
  const OperatorGraph& graph_;
  const CostModel& costs_;
  PlanOptions options_;
  LayoutTable layouts_;
  ExpertLoads loads_;
  CommunicationPricesByThread prices_;
  BoundOperators operators_;
  CommunicationPlans plans_;
  BackwardUses backward_;
  const Recipe* mesh_ = nullptr;  // now
  std::int64_t group_ = 0;
  BoundStrategy bound_;  // null where an operator is not looked at
};

namespace {

// How long transfers hold each lane.
struct LaneLoads {
  std::vector<Nanoseconds> each, once;  // of a microbatch, of an iteration
};

// Costs of one part on one group.
template <class MeshTables>
class PartMeter {
 public:
  PartMeter(const ModelPart& part, const ModelParts& parts, MeshTables& tables, GatheredInputs gathered)
      : part_(part), parts_(parts), tables_(tables), graph_(tables.graph()), gathered_(gathered) {
    std::vector<OperatorId> ops = part.operators;
    if (part.entry) ops.push_back(graph_.tensor(*part.entry).producer);
    tables.bind(ops);
    inside_.insert(part.operators.begin(), part.operators.end());
    shards_ = part.operators.empty() ? 0 : tables[part.operators.front()].config.devices.size();
  }

  PartCosts measure() {
    PartCosts costs;
    if (part_.operators.empty()) return costs;
    measure_busy(costs);
    if (part_.entry) costs.forward = end_of_forward(forward_runs(true));
    costs.forward_first = end_of_forward(forward_runs(false));
    for (std::size_t k = 0; k < kNumRecomputes; ++k) {
      if (!parts_.recomputation[k]) continue;
      if (kRecipeRecomputes[k] == Recompute::Kind::Full) {
        costs.backward[k] = std::max<Nanoseconds>(0, backward_again(k));
        costs.backward_first[k] = costs.backward_first[0];
      } else {
        measure_backward(k, costs);
      }
      measure_kept(k, costs);
    }
    measure_weights(costs);
    return costs;
  }

  // Of transfers in the part alone, and of gradients and weights that no other part uses.
  LaneLoads loads(const StateSharding& sharding) {
    const std::size_t lanes = tables_.topology().num_lanes();
    LaneLoads loads{std::vector<Nanoseconds>(lanes, 0), std::vector<Nanoseconds>(lanes, 0)};
    for (const OperatorId op : part_.operators) {
      stop_if_late();
      for (std::size_t u = 0; u < tables_[op].op->uses.size(); ++u) {
        const UseRef use{op, static_cast<std::int32_t>(u)};
        if (tables_[op].op->uses[u].role == Role::Output) add_transfers(use, loads.each);
      }
      for (const TensorId weight : tables_.backward().owned_weights(op)) add_weight(weight, sharding, loads);
    }
    return loads;
  }

 private:
  static constexpr std::size_t kMostAncestors = 256;
  using Ancestors = std::bitset<kMostAncestors>;

  [[nodiscard]] bool is_inside(OperatorId op) const { return inside_.contains(op); }
  [[nodiscard]] const Recomputation& recomputation(std::size_t kind) const {
    return *parts_.recomputation[kind];
  }
  [[nodiscard]] bool again(std::size_t kind, OperatorId op) const {
    return recomputation(kind).any() && recomputation(kind).again(op);
  }

  // How long each device is busy, by its place among the devices of the part's first operator.
  void measure_busy(PartCosts& costs) {
    const std::vector<DeviceId>& devices = tables_[part_.operators.front()].config.devices;
    Moments forward(shards_, 0), input(shards_, 0), weight(shards_, 0);
    std::array<Moments, kNumRecomputes> once_more;
    once_more.fill(Moments(shards_, 0));
    for (const OperatorId op : part_.operators) {
      stop_if_late();
      const BoundOperator& bound = tables_[op];
      const std::size_t shards = bound.config.devices.size();
      for (std::size_t d = 0; d < shards_; ++d) {
        const std::int32_t shard = bound.shard_of_device[devices[d].index()];
        if (shard < 0) continue;
        const auto k = static_cast<std::size_t>(shard);
        forward[d] += duration_of(bound.forward, k, shards);
        input[d] += duration_of(bound.backward_input, k, shards);
        weight[d] += duration_of(bound.backward_weight, k, shards);
        for (std::size_t r = 0; r < kNumRecomputes; ++r) {
          if (parts_.recomputation[r] && again(r, op))
            once_more[r][d] += duration_of(bound.forward, k, shards);
        }
      }
    }
    costs.busy_forward = least(forward);
    costs.busy_input = least(input);
    costs.busy_weight = least(weight);
    for (std::size_t r = 0; r < kNumRecomputes; ++r) costs.busy_again[r] = least(once_more[r]);
  }

  // Runs of shards on the way to something.
  struct Run {
    Moments begin, end;
    std::vector<Ancestors> before;  // by shard: runs on the same device that it waits for
  };
  using Runs = std::map<OperatorId, Run>;

  [[nodiscard]] std::size_t place_of(OperatorId op) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(part_.operators, op) - part_.operators.begin());
  }

  // When shards run forward. Chains begin at 0 with what makes the entry, or without its way in with what
  // reads it; in front of the layers with any operator.
  Runs forward_runs(bool with_way_in) {
    Runs runs;
    const bool front = &part_ == &parts_.front;
    if (part_.entry && with_way_in) {
      const OperatorId producer = graph_.tensor(*part_.entry).producer;
      const Moments there(tables_[producer].config.devices.size(), 0);
      runs[producer] = {there, there, std::vector<Ancestors>(there.size())};
    }
    for (const OperatorId op : part_.operators) {
      const BoundOperator& bound = tables_[op];
      Run run = unmet(bound, front);
      for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
        const TensorUse& use = bound.op->uses[u];
        if (use.role != Role::Input && use.role != Role::Index) continue;
        if (!with_way_in && part_.entry == use.tensor) std::ranges::fill(run.begin, 0);
        wait_for_input(run, runs, {op, static_cast<std::int32_t>(u)});
      }
      finish(run, runs, bound, bound.forward);
      runs[op] = std::move(run);
    }
    return runs;
  }

  static Run unmet(const BoundOperator& bound, bool may_begin) {
    const std::size_t shards = bound.config.devices.size();
    return {Moments(shards, may_begin ? 0 : kNoChain), {}, std::vector<Ancestors>(shards)};
  }

  void wait_for_input(Run& run, const Runs& runs, UseRef use) {
    const TensorId tensor = graph_.op(use.op).uses[static_cast<std::size_t>(use.use)].tensor;
    const UseRef maker = tables_.backward().producing_use(tensor);
    if (maker.op.valid() && runs.contains(maker.op))
      wait_for(run, runs, tables_[use.op], forward_plan(use), {{maker.op, 0}});
  }

  struct TermMaker {
    OperatorId op;
    std::int32_t term;
  };
  // The run waits for what the plan brings of what these have made.
  void wait_for(Run& run, const Runs& runs, const BoundOperator& reader, const CommunicationPlan& plan,
                const std::vector<TermMaker>& makers) {
    std::vector<Maker> sources;
    for (const TermMaker& m : makers) sources.push_back({&tables_[m.op], &runs.at(m.op).end, m.term});
    raise_by(run.begin, arrivals_of(plan, sources, reader));
    if (part_.operators.size() > kMostAncestors) return;
    std::vector<DeviceId> through = plan.local;  // on which it waits for the makers' runs on the same device
    for (const PlanExpansion::Arrival& a : plan.expansion.arrivals) {
      const bool gives = std::ranges::any_of(plan.expansion.contributions, [&](const auto& c) {
        return c.task == a.task && c.device == a.device;
      });
      if (gives) through.push_back(a.device);
    }
    for (const DeviceId d : through) {
      const std::int32_t to = reader.shard_of_device[d.index()];
      for (const TermMaker& m : makers) {
        const std::int32_t from = tables_[m.op].shard_of_device[d.index()];
        if (to < 0 || from < 0 || !is_inside(m.op)) continue;
        Ancestors& before = run.before[static_cast<std::size_t>(to)];
        before |= runs.at(m.op).before[static_cast<std::size_t>(from)];
        before.set(place_of(m.op));
      }
    }
  }

  // A device does one thing after the other: of what the run waits for there, all that can't begin before a
  // moment takes its time after it.
  void finish(Run& run, const Runs& runs, const BoundOperator& bound, const PassWork& work) {
    const std::vector<DeviceId>& devices = bound.config.devices;
    for (std::size_t k = 0; k < devices.size(); ++k) {
      std::vector<std::pair<Nanoseconds, Nanoseconds>> before;  // begin, duration
      for (std::size_t p = 0; run.before[k].any() && p < part_.operators.size(); ++p) {
        if (!run.before[k].test(p)) continue;
        const Run& other = runs.at(part_.operators[p]);
        const auto shard =
            static_cast<std::size_t>(tables_[part_.operators[p]].shard_of_device[devices[k].index()]);
        if (other.begin[shard] != kNoChain && other.end[shard] != kNoChain)
          before.emplace_back(other.begin[shard], other.end[shard] - other.begin[shard]);
      }
      std::ranges::sort(before, std::greater<>());
      Nanoseconds sum = 0;
      for (const auto& [begin, duration] : before) {
        sum += duration;
        run.begin[k] = std::max(run.begin[k], begin + sum);
      }
    }
    run.end = run.begin;
    for (std::size_t k = 0; k < run.end.size(); ++k)
      run.end[k] = after(run.end[k], work.present ? duration_of(work, k, run.end.size()) : 0);
  }

  [[nodiscard]] const CommunicationPlan& forward_plan(UseRef use) {
    const TensorId tensor = graph_.op(use.op).uses[static_cast<std::size_t>(use.use)].tensor;
    const UseRef maker = tables_.backward().producing_use(tensor);
    const LayoutIds source{data_layout(maker, tables_.strategy())};
    return tables_.plan(tensor, source, data_layout(use, tables_.strategy()));
  }

  static void raise_by(Moments& moments, const Moments& others) {
    for (std::size_t k = 0; k < others.size(); ++k) moments[k] = std::max(moments[k], others[k]);
  }

  // When the exit is made on every device; 0 where no chain leads there.
  [[nodiscard]] Nanoseconds end_of_forward(const Runs& runs) const {
    if (!part_.exit) return 0;
    return std::max<Nanoseconds>(0, least(runs.at(graph_.tensor(*part_.exit).producer).end));
  }

  // Waits for the gradient of what the operator makes, where it comes from the part alone.
  void wait_for_gradients(Run& run, const Runs& runs, OperatorId op) {
    const BoundOperator& bound = tables_[op];
    for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
      const TensorUse& use = bound.op->uses[u];
      if (use.role != Role::Output || !tables_.backward().has_backward(use.tensor)) continue;
      const std::span<const UseRef> all = tables_.backward().gradient_makers(use.tensor);
      if (all.empty() || !std::ranges::all_of(all, [&](UseRef m) { return is_inside(m.op); })) continue;
      LayoutIds terms;
      std::vector<TermMaker> makers;
      for (const UseRef maker : all) {
        const LayoutId layout = gradient_layout(maker, tables_.strategy());
        const auto term =
            static_cast<std::int32_t>(std::find(terms.begin(), terms.end(), layout) - terms.begin());
        if (static_cast<std::size_t>(term) == terms.size()) terms.push_back(layout);
        makers.push_back({maker.op, term});
      }
      const LayoutId target = gradient_layout(UseRef{op, static_cast<std::int32_t>(u)}, tables_.strategy());
      wait_for(run, runs, bound, tables_.plan(use.tensor, terms, target), makers);
    }
  }

  // Passes of inputs' gradients. Chains begin with the backward of what makes the exit, or, where `again` is
  // given, with what runs again.
  Runs backward_runs(std::size_t kind, const Runs* again_runs) {
    Runs runs;
    const OperatorId last = part_.exit ? graph_.tensor(*part_.exit).producer : OperatorId();
    for (auto op = part_.operators.rbegin(); op != part_.operators.rend(); ++op) {
      const BoundOperator& bound = tables_[*op];
      Run run = unmet(bound, last == *op && again_runs == nullptr);
      wait_for_gradients(run, runs, *op);
      if (again(kind, *op)) {
        if (again_runs != nullptr) {
          raise_by(run.begin, again_runs->at(*op).end);
        } else {
          wait_for_own_run(run, runs, *op, kind);
        }
      }
      finish(run, runs, bound, bound.backward_input);
      // Without such a pass an operator makes no gradients that others wait for.
      if (!bound.backward_input.present) run.end.assign(run.end.size(), kNoChain);
      runs[*op] = std::move(run);
    }
    return runs;
  }

  // An operator that runs again by itself does so when the device has done the backward of all behind the
  // last reader of its results.
  void wait_for_own_run(Run& run, const Runs& runs, OperatorId op, std::size_t kind) {
    const BoundOperator& bound = tables_[op];
    OperatorId last = op;
    for (const Recomputation::Segment& segment : recomputation(kind).segments()) {
      if (std::ranges::find(segment.operators, op) != segment.operators.end()) last = segment.last;
    }
    Moments gate(run.begin.size(), kNoChain);
    for (const auto& [behind, other] : runs) {
      if (!(last < behind)) continue;
      for (std::size_t k = 0; k < other.end.size(); ++k) {
        const std::int32_t shard = bound.shard_of_device[tables_[behind].config.devices[k].index()];
        if (shard >= 0)
          gate[static_cast<std::size_t>(shard)] =
              std::max(gate[static_cast<std::size_t>(shard)], other.end[k]);
      }
    }
    for (std::size_t k = 0; k < gate.size(); ++k)
      gate[k] = after(gate[k], duration_of(bound.forward, k, gate.size()));
    raise_by(run.begin, gate);
  }

  // When each device has done all it has to do for inputs' gradients; the least of them.
  [[nodiscard]] Nanoseconds end_on_every_device(const Runs& runs) const {
    std::map<DeviceId, Nanoseconds> done;
    for (const auto& [op, run] : runs) {
      const std::vector<DeviceId>& devices = tables_[op].config.devices;
      for (std::size_t k = 0; k < run.end.size(); ++k) {
        Nanoseconds& moment = done.try_emplace(devices[k], kNoChain).first->second;
        moment = std::max(moment, run.end[k]);
      }
    }
    Moments all;
    for (const auto& [device, moment] : done) all.push_back(moment);
    return least(all);
  }

  void measure_backward(std::size_t kind, PartCosts& costs) {
    if (!part_.exit) return;
    const Runs runs = backward_runs(kind, nullptr);
    costs.backward_first[kind] = std::max<Nanoseconds>(0, end_on_every_device(runs));
    if (!part_.entry) return;
    const OperatorId producer = graph_.tensor(*part_.entry).producer;
    Run run = unmet(tables_[producer], false);
    wait_for_gradients(run, runs, producer);
    finish(run, runs, tables_[producer], PassWork());
    costs.backward[kind] = std::max<Nanoseconds>(0, least(run.begin));
  }

  // All that runs again does so from 0 on; then comes backward.
  Nanoseconds backward_again(std::size_t kind) {
    Runs runs;
    for (const OperatorId op : part_.operators) {
      if (!again(kind, op)) continue;
      const BoundOperator& bound = tables_[op];
      Run run = unmet(bound, true);
      for (std::size_t u = 0; u < bound.op->uses.size(); ++u) {
        const UseRef use{op, static_cast<std::int32_t>(u)};
        const TensorUse& read = bound.op->uses[u];
        if (read.role != Role::Input && read.role != Role::Index) continue;
        if (recomputation(kind).reads_again(use)) wait_for_input(run, runs, use);
      }
      finish(run, runs, bound, bound.forward);
      runs[op] = std::move(run);
    }
    if (runs.empty()) return 0;
    return end_on_every_device(backward_runs(kind, &runs));
  }

  static void add(const CommunicationPlan& plan, std::int64_t times, std::vector<Nanoseconds>& lanes) {
    for (const LaneUse& load : plan.loads) lanes[load.lane.index()] += times * load.hold;
  }

  // To readers in the part, each layout once, and back.
  void add_transfers(UseRef maker, std::vector<Nanoseconds>& lanes) {
    const TensorId tensor = graph_.op(maker.op).uses[static_cast<std::size_t>(maker.use)].tensor;
    std::set<LayoutId> targets;
    for (const UseRef use : graph_.consumers(tensor)) {
      if (!is_inside(use.op) || !targets.insert(data_layout(use, tables_.strategy())).second) continue;
      add(forward_plan(use), 1, lanes);
    }
    const std::span<const UseRef> back = tables_.backward().gradient_makers(tensor);
    if (!tables_.backward().has_backward(tensor) || back.empty() ||
        !std::ranges::all_of(back, [&](UseRef m) { return is_inside(m.op); }))
      return;
    add(tables_.plan(tensor, gradient_terms(tensor), gradient_layout(maker, tables_.strategy())), 1, lanes);
  }

  [[nodiscard]] LayoutIds gradient_terms(TensorId tensor) const {
    LayoutIds terms;
    for (const UseRef maker : tables_.backward().gradient_makers(tensor)) {
      const LayoutId layout = gradient_layout(maker, tables_.strategy());
      if (std::find(terms.begin(), terms.end(), layout) == terms.end()) terms.push_back(layout);
    }
    return terms;
  }

  void add_weight(TensorId weight, const StateSharding& sharding, LaneLoads& loads) {
    LayoutIds needed;
    for (const UseRef use : graph_.consumers(weight)) {
      if (!is_inside(use.op)) return;
      const LayoutId layout = data_layout(use, tables_.strategy());
      if (std::find(needed.begin(), needed.end(), layout) == needed.end()) needed.push_back(layout);
    }
    const LayoutIds terms = gradient_terms(weight);
    const LayoutId home = tables_.plans().home(needed);
    const LayoutId state = sharding.any() ? tables_.plans().divided_home(home, terms, sharding.group) : home;
    const bool divided = state != home;
    const PlanOptions& options = tables_.options();
    add(tables_.plans().between(terms, state,
                                {bytes_per_element(options.gradient_type), options.gradient_piece}),
        1, sharding.each_microbatch() && divided ? loads.each : loads.once);
    if (!divided) return;
    const CommunicationPlan& gather = tables_.plans().between(
        LayoutIds{state}, home,
        {bytes_per_element(sharding.gather_type(graph_.tensor(weight).type)), kWhole});
    if (sharding.gathers_to_use()) {
      add(gather, sharding.keep_gathered ? 1 : 2, loads.each);
    } else {
      add(gather, 1, loads.once);
    }
  }

  // Sums are as large as their addends; what is gathered is more than a device's own part.
  [[nodiscard]] bool is_gathered(UseRef use, const CommunicationPlan& plan) {
    const TensorId tensor = graph_.op(use.op).uses[static_cast<std::size_t>(use.use)].tensor;
    const UseRef maker = tables_.backward().producing_use(tensor);
    const Layout& held = tables_.layouts()[data_layout(maker, tables_.strategy())];
    const Layout& got = tables_.layouts()[plan.target];
    return held.num_addends() == 1 && std::ranges::all_of(got.entries(), [&](const LayoutEntry& e) {
             const std::int64_t before = held.elements_on(e.device);
             return before > 0 && before < got.elements_on(e.device);
           });
  }

  // A reader for whom the tensor is still there when backward begins.
  [[nodiscard]] bool is_kept_for(std::size_t kind, UseRef use) const {
    const TensorUse& read = graph_.op(use.op).uses[static_cast<std::size_t>(use.use)];
    const BackwardNeed& need = tables_.backward().need(use.op);
    const bool saved = read.saved && (need.input_pass || need.weight_pass);
    return (saved || again(kind, use.op)) &&
           !(recomputation(kind).any() && recomputation(kind).reads_again(use));
  }

  // What a device keeps, and of this what it keeps until weights have their gradients.
  struct KeptBytes {
    std::map<DeviceId, Bytes> all, for_weights;
    void add(const KeptBytes& other) {
      for (const auto& [d, bytes] : other.all) all[d] += bytes;
      for (const auto& [d, bytes] : other.for_weights) for_weights[d] += bytes;
    }
    [[nodiscard]] static Bytes least_of(const std::map<DeviceId, Bytes>& bytes) {
      Bytes fewest = bytes.begin()->second;
      for (const auto& [d, b] : bytes) fewest = std::min(fewest, b);
      return fewest;
    }
  };

  // Of the tensor for readers in the part: the device's own piece, or what arrived. `own_kept`: for its
  // maker.
  [[nodiscard]] KeptBytes kept_of(std::size_t kind, TensorId tensor, bool own_kept) {
    const UseRef maker = tables_.backward().producing_use(tensor);
    const Layout& made = tables_.layouts()[data_layout(maker, tables_.strategy())];
    const std::int64_t element = bytes_per_element(graph_.tensor(tensor).type);
    KeptBytes own, arrived;
    const auto keep_own = [&](DeviceId d, bool for_weights) {
      const Bytes bytes(made.elements_on(d) * element);
      own.all[d] = bytes;
      if (for_weights) own.for_weights[d] = bytes;
    };
    if (own_kept) {
      for (const DeviceId d : tables_[maker.op].config.devices)
        keep_own(d, tables_.backward().need(maker.op).weight_pass);
    }
    std::set<LayoutId> targets;
    for (const UseRef use : graph_.consumers(tensor)) {
      if (!is_inside(use.op) || !is_kept_for(kind, use)) continue;
      const TensorUse& read = graph_.op(use.op).uses[static_cast<std::size_t>(use.use)];
      const bool for_weights = read.saved && tables_.backward().need(use.op).weight_pass;
      const CommunicationPlan& plan = forward_plan(use);
      for (const DeviceId d : plan.local) keep_own(d, for_weights);
      if (plan.tasks.empty() || !targets.insert(plan.target).second) continue;
      const bool again_moved = gathered_ == GatheredInputs::Again && is_gathered(use, plan);
      for (const auto& [d, bytes] : plan.received) {
        if (again_moved) {  // the own part, or, where nothing behind is awaited, all that arrived
          keep_own(d, false);
        } else {
          arrived.all[d] += bytes;
          if (for_weights) arrived.for_weights[d] += bytes;
        }
      }
    }
    own.add(arrived);
    return own;
  }

  void measure_kept(std::size_t kind, PartCosts& costs) {
    KeptBytes kept, of_entry;
    for (const DeviceId d : tables_[part_.operators.front()].config.devices)
      kept.all[d], kept.for_weights[d], of_entry.all[d];
    for (const OperatorId op : part_.operators) {
      const BoundOperator& bound = tables_[op];
      const BackwardNeed& need = tables_.backward().need(op);
      const bool backward = need.input_pass || need.weight_pass;
      for (const TensorUse& use : bound.op->uses) {
        if (use.role == Role::Output)
          kept.add(kept_of(kind, use.tensor, use.saved && !again(kind, op) && backward));
      }
      if (again(kind, op) || !backward) continue;
      for (std::size_t k = 0; k < bound.memory.size(); ++k) {
        kept.all[bound.config.devices[k]] += bound.memory[k].saved;
        if (need.weight_pass) kept.for_weights[bound.config.devices[k]] += bound.memory[k].saved;
      }
    }
    if (part_.entry) of_entry.add(kept_of(kind, *part_.entry, false));
    costs.kept[kind] = KeptBytes::least_of(kept.all);
    costs.kept_for_weights[kind] = KeptBytes::least_of(kept.for_weights);
    costs.kept_entry[kind] = KeptBytes::least_of(of_entry.all);
  }

  // Weights that another part uses too may have copies there.
  void measure_weights(PartCosts& costs) {
    for (const OperatorId op : part_.operators) {
      for (const TensorId weight : tables_.backward().owned_weights(op)) {
        LayoutIds needed;
        bool alone = true;
        for (const UseRef use : graph_.consumers(weight)) {
          if (!is_inside(use.op)) {
            alone = false;
            continue;
          }
          const LayoutId layout = data_layout(use, tables_.strategy());
          if (std::find(needed.begin(), needed.end(), layout) == needed.end()) needed.push_back(layout);
        }
        const Layout& home = tables_.layouts()[tables_.plans().home(needed)];
        PartCosts::Weights held{INT64_MAX, 0, 1, graph_.tensor(weight).type};
        std::map<std::int32_t, std::int64_t> holders;  // by box
        std::int64_t sum = 0;
        for (const LayoutEntry& e : home.entries()) {
          sum += home.box(e).elements();
          held.copies = std::max(held.copies, ++holders[e.box]);
        }
        const std::vector<DeviceId>& devices = tables_[op].config.devices;
        for (const DeviceId d : devices) held.elements = std::min(held.elements, home.elements_on(d));
        held.mean_elements = static_cast<double>(sum) / static_cast<double>(devices.size());
        if (!alone) held.copies = INT32_MAX;
        costs.weights.push_back(held);
      }
    }
  }

  const ModelPart& part_;
  const ModelParts& parts_;
  MeshTables& tables_;
  const OperatorGraph& graph_;
  GatheredInputs gathered_;
  std::set<OperatorId> inside_;
  std::size_t shards_ = 0;
};

void lower(PartCosts& costs, const PartCosts& other) {
  const auto lower_to = [](auto& a, const auto& b) { a = std::min(a, b); };
  lower_to(costs.forward, other.forward);
  lower_to(costs.forward_first, other.forward_first);
  lower_to(costs.busy_forward, other.busy_forward);
  lower_to(costs.busy_input, other.busy_input);
  lower_to(costs.busy_weight, other.busy_weight);
  for (std::size_t k = 0; k < kNumRecomputes; ++k) {
    lower_to(costs.backward[k], other.backward[k]);
    lower_to(costs.backward_first[k], other.backward_first[k]);
    lower_to(costs.busy_again[k], other.busy_again[k]);
    lower_to(costs.kept[k], other.kept[k]);
    lower_to(costs.kept_entry[k], other.kept_entry[k]);
    lower_to(costs.kept_for_weights[k], other.kept_for_weights[k]);
  }
}

}  // namespace

MeshMeter::MeshMeter(const RecipeModel& model, const ModelParts& parts, const CostModel& costs,
                     PlanOptions options)
    : tables_(std::make_unique<Tables>(model, costs, std::move(options))), parts_(parts) {}

MeshMeter::~MeshMeter() = default;

RecipeMeshCosts MeshMeter::costs(const Recipe& mesh, const std::vector<std::int64_t>& groups) {
  RecipeMeshCosts made;
  made.of_class.resize(parts_.representative.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    tables_->begin(mesh, groups[g]);
    const auto measure = [&](const ModelPart& part, PartCosts& into) {
      const PartCosts measured = PartMeter(part, parts_, *tables_, mesh.gathered_inputs()).measure();
      if (g == 0) into = measured;
      lower(into, measured);
    };
    measure(parts_.front, made.front);
    for (std::size_t c = 0; c < made.of_class.size(); ++c) measure(parts_.of_class(c), made.of_class[c]);
    measure(parts_.behind, made.behind);
  }
  return made;
}

MeshTraffic MeshMeter::traffic(const Recipe& mesh, const StateSharding& sharding, std::int64_t microbatches,
                               const std::vector<std::int64_t>& groups) {
  std::vector<std::int64_t> layers_of_class(parts_.representative.size(), 0);
  for (const std::size_t number : parts_.class_of) ++layers_of_class[number];
  MeshTraffic least_of_all;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    tables_->begin(mesh, groups[g]);
    const auto loads_of = [&](const ModelPart& part) {
      return PartMeter(part, parts_, *tables_, mesh.gathered_inputs()).loads(sharding);
    };
    const LaneLoads front = loads_of(parts_.front), behind = loads_of(parts_.behind);
    std::vector<LaneLoads> of_class;
    for (std::size_t c = 0; c < layers_of_class.size(); ++c) of_class.push_back(loads_of(parts_.of_class(c)));
    // One lane for all parts: that which an iteration of all layers holds longest.
    std::size_t busiest = tables_->topology().num_devices();
    Nanoseconds longest = -1;
    for (std::size_t lane = busiest; lane < tables_->topology().num_lanes(); ++lane) {
      Nanoseconds held = 0;
      for (std::size_t c = 0; c < of_class.size(); ++c)
        held += layers_of_class[c] * (microbatches * of_class[c].each[lane] + of_class[c].once[lane]);
      if (held > longest) longest = held, busiest = lane;
    }
    const auto on_lane = [&](const LaneLoads& loads) {
      return longest < 0 ? PartTraffic() : PartTraffic{loads.each[busiest], loads.once[busiest]};
    };
    MeshTraffic made{on_lane(front), on_lane(behind), {}};
    for (const LaneLoads& loads : of_class) made.of_class.push_back(on_lane(loads));
    const auto lower_to = [](PartTraffic& a, const PartTraffic& b) {
      a.each = std::min(a.each, b.each), a.once = std::min(a.once, b.once);
    };
    if (g == 0) least_of_all = made;
    lower_to(least_of_all.front, made.front);
    lower_to(least_of_all.behind, made.behind);
    for (std::size_t c = 0; c < of_class.size(); ++c) lower_to(least_of_all.of_class[c], made.of_class[c]);
  }
  return least_of_all;
}

std::vector<std::int64_t> distinct_groups(std::int64_t groups, const Topology& topology) {
  const auto size = topology.num_devices() / static_cast<std::size_t>(groups);
  // Lanes are numbered as routes meet them.
  const auto shape_of = [&](std::int64_t group) {
    std::vector<double> shape;
    std::map<LaneId, std::size_t> lanes;
    const std::size_t first = static_cast<std::size_t>(group) * size;
    for (std::size_t i = 0; i < size; ++i) {
      shape.push_back(topology.device(DeviceId(first + i)).kind);
      for (std::size_t j = 0; j < size; ++j) {
        if (i == j) continue;
        const DeviceId from(first + i), to(first + j);
        const Route route = topology.route(from, to);
        shape.push_back(topology.distance(from, to));
        shape.push_back(route.latency.value);
        for (const LaneId lane : route.lanes) {
          shape.push_back(static_cast<double>(lanes.try_emplace(lane, lanes.size()).first->second));
          shape.push_back(topology.lane_bandwidth(lane).value);
        }
      }
    }
    return shape;
  };
  std::vector<std::int64_t> distinct{0};
  if (groups == 1) return distinct;
  std::set<std::vector<double>> shapes{shape_of(0)};
  for (std::int64_t g = 1; g < groups; ++g) {
    if (shapes.insert(shape_of(g)).second) distinct.push_back(g);
  }
  return distinct;
}

Bytes least_permanent(const PartCosts& part, const StateSharding& sharding, DataType gradient_type,
                      Optimizer optimizer) {
  Bytes sum;
  for (const PartCosts::Weights& w : part.weights) {
    const std::int64_t parts = !sharding.any()       ? 1
                               : sharding.group == 0 ? w.copies
                                                     : std::min<std::int64_t>(w.copies, sharding.group);
    const auto state =
        sharding.any() ? static_cast<std::int64_t>(w.mean_elements / static_cast<double>(parts)) : w.elements;
    const auto bytes = [&](std::int64_t elements) {
      return CostModel::weight_memory(elements, sharding.kept_type(w.type), gradient_type, optimizer);
    };
    sum += bytes(sharding.gathers_to_use() ? state : w.elements).weights;
    sum += bytes(sharding.each_microbatch() ? state : w.elements).gradients;
    sum += bytes(state).optimizer_state;
  }
  return sum;
}

}  // namespace pipesim
