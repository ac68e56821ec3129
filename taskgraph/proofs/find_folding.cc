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
#include "taskgraph/proofs/folded_copies.h"
#include "taskgraph/proofs/lane_classes.h"

namespace pipesim {

class FoldingFinder {
 public:
  explicit FoldingFinder(const PlanContents& contents)
      : contents_(contents), facts_(contents.costs().topology().num_devices()) {}

  std::optional<Folding> find(const BoundStrategy& strategy) {
    list_groups(strategy);
    for (std::int32_t way = 0; way < contents_.ways(); ++way) {
      const BoundStrategy of_way = contents_.strategy_of(way, strategy);
      for (const BoundOperator* b : of_way) add_operator(*b);
      list_transfers(of_way);
    }
    list_weights(strategy);
    if (!takes_time_) return std::nullopt;
    const auto found = classes();
    if (!found) return std::nullopt;
    return folded(*found, strategy);
  }

  // Proves the classes of a folding again, with the times that there are now.
  bool reprice(Folding& f) {
    for (const auto& [whole, classes] : f.exchange_classes_) add_operator(*whole);
    for (const auto& [whole, plan] : f.plans_) add_plan(*whole);
    for (const auto& [whole, updates] : f.updates_) add_updates(*whole);
    const FoldedCopies copies(f.first_lane_);
    return takes_time_ && have_facts_of_first(copies) &&
           lanes_are_alike(lane_classes_of(f, copies), patterns_) && take_times(f, copies);
  }

 private:
  // What a device must have in common with another to be like it.
  void note(DeviceId device, std::int64_t fact) { facts_[device.index()].push_back(fact); }
  void note(DeviceId device, Bytes bytes) { note(device, bytes.value); }

  void list_groups(const BoundStrategy& strategy) {
    const PipelineOrder order = contents_.order_of(strategy, contents_.options().microbatches);
    for (std::size_t i = 0; i < facts_.size(); ++i) note(DeviceId(i), order.group_of[i]);
    std::vector<bool> works(facts_.size(), false);
    for (const BoundOperator* b : strategy) {
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
      note(devices[k], b.memory[k].input_copy);
      note(devices[k], b.memory[k].gradient_copy);
      note(devices[k], b.memory[k].input_gradients);
      note(devices[k], b.memory[k].forward_blocks);
      note(devices[k], b.memory[k].in_forward());
      note(devices[k], b.memory[k].in_backward());
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
        add_plan(contents_.transfer_plan(tensor, std::span(&source, 1), target, Moved::Data));
      }
      if (!contents_.backward().has_backward(tensor)) continue;
      contents_.list_gradient_terms(tensor, strategy, terms);
      add_plan(contents_.transfer_plan(tensor, terms, gradient_layout(producer, strategy), Moved::Gradient));
    }
  }

  // What no step of a microbatch depends on.
  void list_weights(const BoundStrategy& strategy) {
    const std::vector<WeightMemory> permanent = contents_.permanent_memory(strategy);
    for (std::size_t i = 0; i < facts_.size(); ++i) {
      const DeviceId d(i);
      note(d, permanent[i].weights);
      note(d, permanent[i].gradients);
      note(d, permanent[i].optimizer_state);
    }
    for (const LayoutId layout : of_weights_) add_layout(layout);
    for (std::size_t op = 0; op < strategy.size(); ++op) {
      const std::span<const TensorId> weights = contents_.backward().owned_weights(OperatorId(op));
      stop_if_late();
      for (const TensorId w : contents_.backward().frozen_weights(OperatorId(op))) {
        if (contents_.options().state_sharding.gathers_to_use() && contents_.graph().tensor(w).frozen)
          add_gathers(w, strategy);
      }
      if (weights.empty()) continue;
      for (const TensorId w : weights) {
        add_plan(contents_.sync_plan(w, strategy));
        add_gathers(w, strategy);
      }
      add_updates(contents_.update_work(OperatorId(op), strategy));
    }
  }

  void add_gathers(TensorId weight, const BoundStrategy& strategy) {
    const StateSharding& sharding = contents_.options().state_sharding;
    if (!sharding.any()) return;
    LayoutIds targets;
    if (!sharding.gathers_before_use()) targets.push_back(contents_.home_of(weight, strategy));
    for (const UseRef use : contents_.graph().consumers(weight)) {
      if (!sharding.gathers_before_use()) break;
      const LayoutId needed = contents_.needed_in(contents_.stage_of(use.op), weight, strategy);
      if (std::find(targets.begin(), targets.end(), needed) == targets.end()) targets.push_back(needed);
    }
    for (const LayoutId target : targets) {
      if (contents_.gathers(weight, target, strategy))
        add_plan(contents_.gather_plan(weight, target, strategy));
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
      note(updates.devices[i], updates.widened[i]);
      note(updates.devices[i], updates.intermediates[i]);
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

  [[nodiscard]] Folding folded(const LaneClasses& classes, const BoundStrategy& strategy) {
    Folding f;
    for (const std::int32_t c : classes.of_lane)
      f.first_lane_.push_back(classes.first[static_cast<std::size_t>(c)]);
    const FoldedCopies copies(f.first_lane_);
    for (std::size_t d = 0; d < facts_.size(); ++d) f.first_of_.push_back(copies.first_of(DeviceId(d)));
    for (const auto& [whole, pattern] : pattern_of_operator_)
      f.exchange_classes_.emplace(whole, classes.of_task[pattern]);
    // By that of whole operators, which alike ones share: each is as long as the topology has devices.
    std::unordered_map<const std::int32_t*, SharedList<std::int32_t>> shards_of_devices;
    const auto fold_all = [&](const BoundStrategy& whole) {
      BoundStrategy made;
      for (const BoundOperator* b : whole) {
        BoundOperator& folded =
            f.operators_.emplace_back(copies.of(*b, f.exchange_classes_.at(&first_alike(*b))));
        folded.shard_of_device =
            shards_of_devices.try_emplace(b->shard_of_device.data(), folded.shard_of_device).first->second;
        f.whole_operators_.push_back(b);
        made.push_back(&f.operators_.back());
      }
      return made;
    };
    f.strategy_ = fold_all(strategy);
    for (std::int32_t way = 0; contents_.ways() > 1 && way < contents_.ways(); ++way)
      f.ways_.push_back(way == 0 ? f.strategy_ : fold_all(contents_.strategy_of(way, strategy)));
    for (const auto& [plan, pattern] : pattern_of_plan_) {
      const auto [at, fresh] = f.plans_.try_emplace(
          plan, Folding::Plan{copies.of(*plan, classes.of_task[pattern]), classes.of_task[pattern]});
      f.whole_.emplace(&at->second.plan, plan);
    }
    for (const auto& [updates, number] : met_updates_) f.updates_.emplace(updates, copies.of(*updates));
    return f;
  }

  // Whether all devices have the facts of the devices that stand for them.
  [[nodiscard]] bool have_facts_of_first(const FoldedCopies& copies) const {
    for (std::size_t d = 0; d < facts_.size(); ++d) {
      if (facts_[d] != facts_[copies.first_of(DeviceId(d)).index()]) return false;
    }
    return true;
  }

  [[nodiscard]] LaneClasses lane_classes_of(const Folding& f, const FoldedCopies& copies) const {
    LaneClasses classes;
    std::vector<std::int32_t> number(copies.first_lane().size(), -1);  // by the first lane of a class
    for (const LaneId first : copies.first_lane()) {
      std::int32_t& of_first = number[first.index()];
      if (of_first < 0)
        of_first = static_cast<std::int32_t>(classes.first.size()), classes.first.push_back(first);
      classes.of_lane.push_back(of_first);
    }
    classes.of_task.resize(patterns_.size());
    for (const auto& [whole, pattern] : pattern_of_operator_)
      classes.of_task[pattern] = f.exchange_classes_.at(whole);
    for (const auto& [whole, pattern] : pattern_of_plan_)
      classes.of_task[pattern] = f.plans_.at(whole).task_of;
    return classes;
  }

  [[nodiscard]] bool take_times(Folding& f, const FoldedCopies& copies) const {
    std::unordered_map<const BoundOperator*, const BoundOperator*> known;  // folded, by the first alike
    for (std::size_t i = 0; i < f.operators_.size(); ++i) {
      const BoundOperator& whole = first_alike(*f.whole_operators_[i]);
      const auto [at, fresh] = known.try_emplace(&whole, &f.operators_[i]);
      const bool taken =
          fresh ? pipesim::take_times(f.operators_[i], copies.of(whole, f.exchange_classes_.at(&whole)))
                : pipesim::take_times(f.operators_[i], *at->second);
      if (!taken) return false;
    }
    for (auto& [whole, plan] : f.plans_) {
      if (!pipesim::take_times(plan.plan, copies.of(*whole, plan.task_of))) return false;
    }
    for (auto& [whole, updates] : f.updates_) updates.durations = copies.of(*whole).durations;
    return true;
  }

  // Kinds of facts that are told from the numbers of patterns by their sign.
  static constexpr std::int64_t kLayoutFact = -1, kLocalFact = std::int64_t{-1} << 40,
                                kUpdateFact = std::int64_t{-1} << 41;
  static constexpr std::array kPasses{TaskKind::Forward, TaskKind::BackwardInput, TaskKind::BackwardWeight};

  const PlanContents& contents_;
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
};

std::optional<Folding> find_folding(const PlanContents& contents, const BoundStrategy& strategy) {
  const bool replicated =
      contents.ways() > 1 && !schedule_kind(contents.options().pipeline->schedule).both_ways;
  if (replicated || contents.versions().several()) return std::nullopt;
  contents.know_ways({}, {});  // those of a folding before, whose operators are gone
  return FoldingFinder(contents).find(strategy);
}

bool reprice(Folding& folding, const PlanContents& contents) {
  return FoldingFinder(contents).reprice(folding);
}

}  // namespace pipesim
