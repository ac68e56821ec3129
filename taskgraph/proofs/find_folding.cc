#include "taskgraph/proofs/find_folding.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <string_view>

#include "sim/base/deadline.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/proofs/lane_classes.h"

namespace pipesim {

class FoldingFinder {
 public:
  FoldingFinder(const PlanContents& contents, const BoundStrategy& strategy)
      : contents_(contents), strategy_(strategy), facts_(contents.costs().topology().num_devices()) {}

  std::optional<Folding> find() {
    list_groups();
    for (std::int32_t way = 0; way < contents_.ways(); ++way) {
      const BoundStrategy of_way = contents_.strategy_of(way, strategy_);
      for (const BoundOperator* b : of_way) add_operator(*b);
      list_transfers(of_way);
    }
    list_weights();
    if (!takes_time_) return std::nullopt;
    const auto found = classes();
    if (!found) return std::nullopt;
    return folded(*found);
  }

 private:
  // What a device must have in common with another to be like it.
  void note(DeviceId device, std::int64_t fact) { facts_[device.index()].push_back(fact); }
  void note(DeviceId device, Bytes bytes) { note(device, bytes.value); }

  void list_groups() {
    const PipelineOrder order = contents_.order_of(strategy_, contents_.options().microbatches);
    for (std::size_t i = 0; i < facts_.size(); ++i) note(DeviceId(i), order.group_of[i]);
    std::vector<bool> works(facts_.size(), false);
    for (const BoundOperator* b : strategy_) {
      for (const DeviceId d : b->config.devices) works[d.index()] = true;
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (works[i]) working_.emplace_back(i);
    }
  }

  static const BoundOperator& first_alike(const BoundOperator& bound) {
    return bound.first_alike ? *bound.first_alike : bound;
  }

  // Operators that are alike are looked at once.
  void add_operator(const BoundOperator& bound) {
    const BoundOperator& b = first_alike(bound);
    const auto [at, fresh] = pattern_of_operator_.try_emplace(&b, patterns_.size());
    if (!fresh) return;
    const auto number = static_cast<std::int64_t>(patterns_.size());
    TaskPattern& pattern = patterns_.emplace_back();
    const std::vector<DeviceId>& devices = b.config.devices;
    for (std::size_t k = 0; k < devices.size(); ++k) {
      note(devices[k], number);
      note(devices[k], b.memory[k].outputs);
      note(devices[k], b.memory[k].saved);
      note(devices[k], b.memory[k].input_gradients);
      note(devices[k], b.memory[k].forward_blocks);
      note(devices[k], b.memory[k].workspace);
      note(devices[k], b.memory[k].backward_blocks);
    }
    std::int32_t pass = 0;
    for (const PassWork* work : {&b.forward, &b.backward_input, &b.backward_weight}) {
      for (std::size_t i = 0; i < work->durations.size(); ++i) {
        takes_time_ = takes_time_ && work->durations[i] > 0;
        note(devices[i % devices.size()], work->durations[i]);
      }
      add_exchanges(b, *work, pass, pattern);
      ++pass;
    }
    for (std::size_t u = 0; u < b.gradient_layout.size(); ++u) {
      if (!b.gradient_layout[u].valid()) continue;
      if (b.op->uses[u].role == Role::Weight) {
        of_weights_.push_back(b.gradient_layout[u]);
      } else {
        add_layout(b.gradient_layout[u]);
      }
    }
  }

  // Which stages an exchange lies between follows from its pass and step. Of a message, each edge ends at the
  // stages of its sender or of its receiver, so it is enough to tell these two apart.
  void add_exchanges(const BoundOperator& b, const PassWork& work, std::int32_t pass, TaskPattern& pattern) {
    const std::size_t before = pattern.tasks.size();
    std::vector<std::vector<std::int32_t>>& waits = waits_.emplace_back(work.exchanges.size());
    const auto first = static_cast<std::int32_t>(work.stages() * b.config.devices.size());
    for (const InnerWait w : work.waits) {
      if (w.before >= first && w.after >= first)
        waits[static_cast<std::size_t>(w.after - first)].push_back(static_cast<std::int32_t>(before) +
                                                                   w.before - first);
    }
    for (std::size_t i = 0; i < work.exchanges.size(); ++i) {
      const InnerExchange& e = work.exchanges[i];
      pattern.tasks.push_back({inner_exchange_key(kind_of(e), kPasses[static_cast<std::size_t>(pass)], 0,
                                                  OperatorId(0), e.step, e.task.group.front()),
                               e.task.duration,
                               {pass, e.step, 0},
                               e.task.lanes,
                               contributors(e.task.kind, e.task.group),
                               receivers(e.task.kind, e.task.group),
                               waits[i]});
    }
  }

  // Gradients take memory where they are made.
  void add_layout(LayoutId id) {
    if (id.index() >= met_layouts_.size()) met_layouts_.resize(id.index() + 1, false);
    if (met_layouts_[id.index()]) return;
    met_layouts_[id.index()] = true;
    const Layout& layout = contents_.layouts()[id];
    for (const LayoutEntry& e : layout.entries()) {
      note(e.device, kLayoutFact - id.value);
      note(e.device, layout.box(e).elements());
    }
  }

  void list_transfers(const BoundStrategy& strategy) {
    const OperatorGraph& graph = contents_.graph();
    LayoutIds terms, targets;
    for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
      const TensorId tensor(t);
      const UseRef producer = contents_.backward().producing_use(tensor);
      stop_if_late();
      if (!producer.op.valid()) continue;
      const LayoutId source = data_layout(producer, strategy);
      targets.clear();
      for (const UseRef use : graph.consumers(tensor)) {
        const LayoutId target = data_layout(use, strategy);
        if (std::find(targets.begin(), targets.end(), target) != targets.end()) continue;
        targets.push_back(target);
        add_plan(contents_.transfer_plan(tensor, std::span(&source, 1), target));
      }
      if (!contents_.backward().has_backward(tensor)) continue;
      contents_.list_gradient_terms(tensor, strategy, terms);
      add_plan(contents_.transfer_plan(tensor, terms, gradient_layout(producer, strategy)));
    }
  }

  // What no step of a microbatch depends on.
  void list_weights() {
    const std::vector<WeightMemory> permanent = contents_.permanent_memory(strategy_);
    for (std::size_t i = 0; i < facts_.size(); ++i) {
      const DeviceId d(i);
      note(d, permanent[i].weights);
      note(d, permanent[i].gradients);
      note(d, permanent[i].optimizer_state);
    }
    for (const LayoutId layout : of_weights_) add_layout(layout);
    for (std::size_t op = 0; op < strategy_.size(); ++op) {
      const std::span<const TensorId> weights = contents_.backward().owned_weights(OperatorId(op));
      stop_if_late();
      if (weights.empty()) continue;
      for (const TensorId w : weights) {
        add_plan(contents_.sync_plan(w, strategy_));
        add_gathers(w);
      }
      add_updates(contents_.update_work(OperatorId(op), strategy_));
    }
  }

  void add_gathers(TensorId weight) {
    const StateSharding& sharding = contents_.options().state_sharding;
    if (!sharding.any()) return;
    LayoutIds targets;
    if (!sharding.gathers_before_use()) targets.push_back(contents_.home_of(weight, strategy_));
    for (const UseRef use : contents_.graph().consumers(weight)) {
      if (!sharding.gathers_before_use()) break;
      const LayoutId needed = contents_.needed_in(contents_.stage_of(use.op), weight, strategy_);
      if (std::find(targets.begin(), targets.end(), needed) == targets.end()) targets.push_back(needed);
    }
    for (const LayoutId target : targets) {
      if (contents_.gathers(weight, target, strategy_))
        add_plan(contents_.gather_plan(weight, target, strategy_));
    }
  }

  [[nodiscard]] std::optional<LaneClasses> classes() const {
    return find_lane_classes(lanes_at_first(), patterns_, working_, working_.size() * 2 / 3);
  }

  void add_plan(const CommunicationPlan& plan) {
    const auto [at, fresh] = pattern_of_plan_.try_emplace(&plan, patterns_.size());
    if (!fresh) return;
    const auto number = static_cast<std::int64_t>(patterns_.size());
    TaskPattern& pattern = patterns_.emplace_back();
    pattern.tasks.reserve(plan.tasks.size());
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      const CommunicationTask& t = plan.tasks[i];
      pattern.tasks.push_back({{0, plan.expansion.tasks[i].key},
                               t.duration,
                               {t.term, t.round, t.piece},
                               t.lanes,
                               contributors(t.kind, t.group),
                               receivers(t.kind, t.group),
                               t.after});
    }
    for (const DeviceId d : plan.local) note(d, kLocalFact - number);
    for (const auto& [device, bytes] : plan.received) {
      note(device, number);
      note(device, bytes);
    }
  }

  void add_updates(const OwnedUpdates& updates) {
    if (!met_updates_.try_emplace(&updates, met_updates_.size()).second) return;
    for (std::size_t i = 0; i < updates.devices.size(); ++i) {
      takes_time_ = takes_time_ && updates.durations[i] > 0;
      note(updates.devices[i], kUpdateFact - static_cast<std::int64_t>(met_updates_.size()));
      note(updates.devices[i], updates.durations[i]);
    }
  }

  // Devices by their facts, links all alike.
  [[nodiscard]] std::vector<std::int32_t> lanes_at_first() const {
    struct Hash {
      std::size_t operator()(const std::vector<std::int64_t>* facts) const {
        return std::hash<std::string_view>()(
            {reinterpret_cast<const char*>(facts->data()), facts->size() * sizeof facts->front()});
      }
    };
    struct Equal {
      bool operator()(const std::vector<std::int64_t>* a, const std::vector<std::int64_t>* b) const {
        return *a == *b;
      }
    };
    std::unordered_map<const std::vector<std::int64_t>*, std::int32_t, Hash, Equal> numbers;
    std::vector<std::int32_t> lanes(contents_.costs().topology().num_lanes(), -1);
    for (std::size_t d = 0; d < facts_.size(); ++d)
      lanes[d] = numbers.try_emplace(&facts_[d], static_cast<std::int32_t>(numbers.size())).first->second;
    return lanes;
  }

  [[nodiscard]] Folding folded(const LaneClasses& classes) {
    Folding f;
    first_lane_.clear();
    for (const std::int32_t c : classes.of_lane)
      first_lane_.push_back(classes.first[static_cast<std::size_t>(c)]);
    f.first_lane_ = first_lane_;
    for (std::size_t d = 0; d < facts_.size(); ++d) f.first_of_.emplace_back(first_lane_[d].index());
    const auto fold_all = [&](const BoundStrategy& strategy) {
      BoundStrategy made;
      for (const BoundOperator* b : strategy) {
        f.operators_.push_back(fold(*b, classes.of_task[pattern_of_operator_.at(&first_alike(*b))]));
        made.push_back(&f.operators_.back());
      }
      return made;
    };
    f.strategy_ = fold_all(strategy_);
    for (std::int32_t way = 0; contents_.ways() > 1 && way < contents_.ways(); ++way)
      f.ways_.push_back(way == 0 ? f.strategy_ : fold_all(contents_.strategy_of(way, strategy_)));
    for (const auto& [plan, pattern] : pattern_of_plan_) {
      const auto [at, fresh] = f.plans_.try_emplace(
          plan, Folding::Plan{fold(*plan, classes.of_task[pattern]), classes.of_task[pattern]});
      f.whole_.emplace(&at->second.plan, plan);
    }
    for (const auto& [updates, number] : met_updates_) f.updates_.emplace(updates, fold(*updates));
    return f;
  }

  [[nodiscard]] bool stands(DeviceId device) const {
    return first_lane_[device.index()].index() == device.index();
  }
  [[nodiscard]] DeviceId first_of(DeviceId device) const {
    return DeviceId(first_lane_[device.index()].index());
  }

  // Appends the uses of lanes that stand for others.
  void append_folded(std::span<const LaneUse> lanes, std::vector<LaneUse>& out) const {
    const auto begin = static_cast<std::ptrdiff_t>(out.size());
    for (const LaneUse use : lanes) {
      const LaneUse first{first_lane_[use.lane.index()], use.hold};
      // A representative comes first of its class, but need not hold the lane itself.
      if (std::find(out.begin() + begin, out.end(), first) == out.end()) out.push_back(first);
    }
  }

  [[nodiscard]] BoundOperator fold(const BoundOperator& b, std::span<const std::int32_t> class_of) const {
    BoundOperator f;
    f.op = b.op;
    f.config.degrees = b.config.degrees;
    f.config.replicas = b.config.replicas;
    f.config.ring = b.config.ring;
    f.data_layout = b.data_layout;
    f.gradient_layout = b.gradient_layout;
    f.communicators = b.communicators;
    f.shard_of_device.assign(b.shard_of_device.size(), -1);
    std::vector<std::size_t> shards;
    for (std::size_t k = 0; k < b.config.devices.size(); ++k) {
      const DeviceId d = b.config.devices[k];
      if (!stands(d)) continue;
      f.shard_of_device[d.index()] = static_cast<std::int32_t>(shards.size());
      shards.push_back(k);
      f.config.devices.push_back(d);
      f.memory.push_back(b.memory[k]);
    }
    const std::array<PassWork*, 3> folded{&f.forward, &f.backward_input, &f.backward_weight};
    const std::array<const PassWork*, 3> whole{&b.forward, &b.backward_input, &b.backward_weight};
    std::int32_t next_class = 0;
    for (std::size_t p = 0; p < whole.size(); ++p) {
      const std::size_t exchanges = whole[p]->exchanges.size();
      *folded[p] = fold(*whole[p], b, f, shards, class_of.first(exchanges), next_class);
      class_of = class_of.subspan(exchanges);
    }
    return f;
  }

  // `next_class`: the first class of exchanges that no pass before has.
  [[nodiscard]] PassWork fold(const PassWork& whole, const BoundOperator& b, const BoundOperator& folded,
                              std::span<const std::size_t> shards, std::span<const std::int32_t> class_of,
                              std::int32_t& next_class) const {
    PassWork f;
    f.present = whole.present;
    f.num_stages = whole.num_stages;
    const std::size_t num_shards = b.config.devices.size();
    const std::size_t stages = whole.durations.size() / num_shards;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      for (const std::size_t k : shards) f.durations.push_back(whole.durations[stage * num_shards + k]);
    }
    const std::int32_t first_class = next_class;
    for (std::size_t i = 0; i < whole.exchanges.size(); ++i) {
      if (class_of[i] != next_class) continue;
      ++next_class;
      f.exchanges.push_back(fold(whole.exchanges[i], folded));
    }
    const auto number = [&](std::int32_t task) {
      const auto t = static_cast<std::size_t>(task), computed = stages * num_shards;
      if (t >= computed)
        return static_cast<std::int32_t>(stages * shards.size()) + class_of[t - computed] - first_class;
      const DeviceId device = first_of(b.config.devices[t % num_shards]);
      return static_cast<std::int32_t>(t / num_shards * shards.size()) +
             folded.shard_of_device[device.index()];
    };
    for (const InnerWait w : whole.waits) f.waits.push_back({number(w.before), number(w.after)});
    std::ranges::sort(f.waits);
    f.waits.erase(std::unique(f.waits.begin(), f.waits.end()), f.waits.end());
    return f;
  }

  // Its group stays, since keys depend on it.
  [[nodiscard]] InnerExchange fold(const InnerExchange& e, const BoundOperator& folded) const {
    InnerExchange f{e.content, e.step, {}, {e.task.kind, e.task.duration, e.task.size, {}, e.task.group}};
    append_folded(e.task.lanes, f.task.lanes);
    for (const DeviceId d : e.task.group) f.shards.push_back(folded.shard_of_device[first_of(d).index()]);
    std::ranges::sort(f.shards);
    f.shards.erase(std::unique(f.shards.begin(), f.shards.end()), f.shards.end());
    return f;
  }

  [[nodiscard]] CommunicationPlan fold(const CommunicationPlan& plan,
                                       std::span<const std::int32_t> class_of) const {
    CommunicationPlan f;
    f.target = plan.target;
    f.term_by_term = plan.term_by_term;
    f.communicators = plan.communicators;
    std::copy_if(plan.local.begin(), plan.local.end(), std::back_inserter(f.local),
                 [&](DeviceId d) { return stands(d); });
    std::copy_if(plan.received.begin(), plan.received.end(), std::back_inserter(f.received),
                 [&](const auto& received) { return stands(received.first); });
    struct Ends {
      std::size_t lanes = 0, group = 0, after = 0;
    };
    std::vector<Ends> ends;
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      if (static_cast<std::size_t>(class_of[i]) != f.tasks.size()) continue;
      const CommunicationTask& t = f.tasks.emplace_back(plan.tasks[i]);
      f.expansion.tasks.push_back({plan.expansion.tasks[i].key, t.duration, nullptr, 0});
      append_folded(t.lanes, f.lane_uses);
      append_group(t.group, f.groups);
      const auto begin = static_cast<std::ptrdiff_t>(f.earlier.size());
      for (const std::int32_t before : t.after)
        f.earlier.push_back(class_of[static_cast<std::size_t>(before)]);
      std::sort(f.earlier.begin() + begin, f.earlier.end());
      f.earlier.erase(std::unique(f.earlier.begin() + begin, f.earlier.end()), f.earlier.end());
      ends.push_back({f.lane_uses.size(), f.groups.size(), f.earlier.size()});
    }
    Ends begin;
    for (std::size_t i = 0; i < f.tasks.size(); ++i) {
      CommunicationTask& t = f.tasks[i];
      t.lanes = std::span(f.lane_uses).subspan(begin.lanes, ends[i].lanes - begin.lanes);
      t.group = std::span(f.groups).subspan(begin.group, ends[i].group - begin.group);
      t.after = std::span(f.earlier).subspan(begin.after, ends[i].after - begin.after);
      begin = ends[i];
      f.expansion.tasks[i].lanes = t.lanes.data();
      f.expansion.tasks[i].num_lanes = t.lanes.size();
      expand(t, static_cast<std::int32_t>(i), f.expansion);
    }
    return f;
  }

  // The root, or what else comes first, stays there; of the others one for each class.
  void append_group(std::span<const DeviceId> group, std::vector<DeviceId>& out) const {
    out.push_back(first_of(group.front()));
    const auto begin = static_cast<std::ptrdiff_t>(out.size());
    for (const DeviceId d : group.subspan(1)) {
      if (std::find(out.begin() + begin, out.end(), first_of(d)) == out.end()) out.push_back(first_of(d));
    }
  }

  static void expand(const CommunicationTask& t, std::int32_t number, PlanExpansion& out) {
    const auto each_once = [](std::span<const DeviceId> devices, auto add) {
      for (std::size_t i = 0; i < devices.size(); ++i) {
        const std::span<const DeviceId> before = devices.first(i);
        if (std::find(before.begin(), before.end(), devices[i]) == before.end()) add(devices[i]);
      }
    };
    each_once(contributors(t.kind, t.group), [&](DeviceId d) {
      out.contributions.push_back({number, d, t.term});
    });
    each_once(receivers(t.kind, t.group), [&](DeviceId d) { out.arrivals.push_back({number, d}); });
    for (const std::int32_t before : t.after) out.waits.push_back({before, number});
  }

  [[nodiscard]] OwnedUpdates fold(const OwnedUpdates& updates) const {
    OwnedUpdates f;
    f.update_of_device.assign(updates.update_of_device.size(), -1);
    for (std::size_t i = 0; i < updates.devices.size(); ++i) {
      const DeviceId d = updates.devices[i];
      if (!stands(d)) continue;
      f.update_of_device[d.index()] = static_cast<std::int32_t>(f.devices.size());
      f.devices.push_back(d);
      f.durations.push_back(updates.durations[i]);
    }
    for (std::size_t i = 0; i < updates.holders.size(); ++i) {
      if (!stands(updates.holders[i])) continue;
      f.holders.push_back(updates.holders[i]);
      f.memory.push_back(updates.memory[i]);
    }
    return f;
  }

  // Kinds of facts that are told from the numbers of patterns by their sign.
  static constexpr std::int64_t kLayoutFact = -1, kLocalFact = std::int64_t{-1} << 40,
                                kUpdateFact = std::int64_t{-1} << 41;
  static constexpr std::array kPasses{TaskKind::Forward, TaskKind::BackwardInput, TaskKind::BackwardWeight};

  const PlanContents& contents_;
  const BoundStrategy& strategy_;
  std::vector<std::vector<std::int64_t>> facts_;  // by device
  std::vector<DeviceId> working_;
  std::vector<TaskPattern> patterns_;
  std::deque<std::vector<std::vector<std::int32_t>>> waits_;  // of exchanges inside operators, by pass
  std::unordered_map<const BoundOperator*, std::size_t> pattern_of_operator_;
  std::unordered_map<const CommunicationPlan*, std::size_t> pattern_of_plan_;
  std::unordered_map<const OwnedUpdates*, std::size_t> met_updates_;
  std::vector<bool> met_layouts_;
  std::vector<LayoutId> of_weights_;  // of their gradients, where they are made
  bool takes_time_ = true;
  std::vector<LaneId> first_lane_;  // by lane: the one that stands for it
};

std::optional<Folding> find_folding(const PlanContents& contents, const BoundStrategy& strategy) {
  const bool replicated =
      contents.ways() > 1 && !schedule_kind(contents.options().pipeline->schedule).both_ways;
  if (replicated || contents.versions().several()) return std::nullopt;
  contents.know_ways({}, {});  // those of a folding before, whose operators are gone
  return FoldingFinder(contents, strategy).find();
}

}  // namespace pipesim
