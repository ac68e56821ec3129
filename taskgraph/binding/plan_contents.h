#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "taskgraph/binding/backward_uses.h"
#include "taskgraph/binding/bound_operators.h"
#include "taskgraph/binding/weight_updates.h"
#include "taskgraph/moving/communication_plan_table.h"
#include "taskgraph/plan/plan.h"
#include "taskgraph/plan/weight_versions.h"

namespace pipesim {

/// How weights are gathered where their state is divided.
inline GatherBy gathers_by(const Runtime& runtime, const StateSharding& sharding) {
  return runtime.broadcasts_weights && !sharding.gathers_to_use() ? GatherBy::Broadcast : GatherBy::AllGather;
}

/// Whether a runtime keeps some gathered weights from forward until backward, and gathers others twice.
inline bool reuses_gathered(const Runtime& runtime, const StateSharding& sharding, bool pipeline) {
  return runtime.reuse_distance > 0 && !pipeline && sharding.gathers_to_use() && !sharding.keeps_gathered();
}

/// Everything about plans of one model, topology and options that needs no tasks: operators under their
/// configs, layouts, communication plans, weight updates. A result that depends on content alone (an operator
/// and its config, or a pair of layouts) is computed once and kept, so the next strategy costs little more
/// than its tasks.
///
/// Only the kept results change. Any number of threads may ask at the same time, and none computes under a
/// lock. The exceptions are order_of() and, where ways() > 1, every function that takes a strategy: one
/// thread at a time may call those. The graph and the cost model must outlive this.
class PlanContents {
 public:
  PlanContents(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options);
  /// The same model and topology with another pipeline and recompute. Both objects share the kept results.
  [[nodiscard]] PlanContents with(std::optional<Pipeline> pipeline, Recompute recompute) const;

  [[nodiscard]] const OperatorGraph& graph() const { return tables_->graph; }
  [[nodiscard]] const CostModel& costs() const { return *tables_->costs; }
  [[nodiscard]] const PlanOptions& options() const { return options_; }
  [[nodiscard]] const WeightVersions& versions() const { return versions_; }
  [[nodiscard]] const Recomputation& recomputation() const { return recomputation_; }
  [[nodiscard]] const BackwardUses& backward() const { return *backward_; }
  [[nodiscard]] const LayoutTable& layouts() const { return tables_->layouts; }
  [[nodiscard]] const CommunicationPlans& plans() const { return tables_->plans; }
  [[nodiscard]] const ExpertLoads& loads() const { return tables_->loads; }
  /// The groups of devices that communicate in plans.
  [[nodiscard]] const DeviceGroupTable& device_groups() const { return *tables_->groups; }
  /// Prices of communication, for this thread.
  [[nodiscard]] CommunicationPrices& prices() const { return tables_->prices.local(); }
  /// The operator's pipeline stage; 0 without a pipeline.
  [[nodiscard]] std::int32_t stage_of(OperatorId op) const;
  /// The number of different sets of devices that microbatches use in turn (a "way"): 2 where pipelines run
  /// in both directions, several where replicas of a stage take turns, else 1.
  [[nodiscard]] std::int32_t ways() const { return ways_; }
  /// The number of ways through the operator's stage alone.
  [[nodiscard]] std::int32_t ways_through(OperatorId op) const;

  /// The config must be legal (see illegal()). The address stays valid until forget().
  const BoundOperator* bind(OperatorId op, const ParallelConfig& config) const {
    return tables_->bound.bind(op, config);
  }
  [[nodiscard]] BoundStrategy bind(const Strategy& strategy) const;
  /// The strategy on the devices that run this microbatch. Valid until the next call with another strategy.
  [[nodiscard]] const BoundStrategy& strategy_of(std::int32_t microbatch,
                                                 const BoundStrategy& strategy) const;
  /// Sets what strategy_of() returns for a folded strategy, whose operators were never bound. It holds until
  /// the next call; an empty `of_way` removes it.
  void know_ways(const BoundStrategy& strategy, std::vector<BoundStrategy> of_way) const;
  /// The steps of the strategy's devices with this number of microbatches.
  [[nodiscard]] PipelineOrder order_of(const BoundStrategy& strategy, std::int32_t microbatches) const;

  /// Prices all kept results anew, in place: what bind() and the following functions returned stays valid,
  /// with other times. Returns false where the figures are not those of the same devices, links and runtime
  /// (but for HostTimes), or where a kept result would have other tasks or hold other lanes; this and all
  /// that share its results are of no use then. No other thread may use them meanwhile. The previous costs
  /// must still be there, and `costs` must outlive them.
  [[nodiscard]] bool reprice(const CostModel& costs);

  // The results of the following functions are kept by content and valid until forget_plans().

  /// The distinct layouts in which a tensor's gradient is made, in the order of
  /// BackwardUses::gradient_makers().
  void list_gradient_terms(TensorId tensor, const BoundStrategy& strategy, LayoutIds& out) const;
  /// Moves an activation, or its gradient, from the sum of `terms` to `target`.
  [[nodiscard]] const CommunicationPlan& transfer_plan(TensorId tensor, std::span<const LayoutId> terms,
                                                       LayoutId target, Moved moved) const;
  /// Moves the gradient of a trained weight to where its state is, or where Runtime::sums_whole says so, to
  /// all devices that hold the weight.
  [[nodiscard]] const CommunicationPlan& sync_plan(TensorId weight, const BoundStrategy& strategy) const;
  /// Element size and largest piece, for transfer_plan() and for sync_plan().
  [[nodiscard]] CommunicationPlans::Setting transfer_setting(TensorId tensor, Moved moved) const;
  [[nodiscard]] CommunicationPlans::Setting sync_setting() const;
  /// Where a weight is stored: on every device where a use needs a part of it.
  [[nodiscard]] LayoutId home_of(TensorId weight, const BoundStrategy& strategy) const;
  /// Where a trained weight's state is kept and updated: its home, or that divided as
  /// PlanOptions::state_sharding says. Where that divides weights, too, a frozen weight is kept there.
  [[nodiscard]] LayoutId state_of(TensorId weight, const BoundStrategy& strategy) const {
    return state_of(weight, home_of(weight, strategy), strategy);
  }
  /// Whether it is Runtime::updates_together that orders the end of an iteration.
  [[nodiscard]] bool updates_together() const {
    return costs().runtime().updates_together && versions_.trained() && !versions_.several();
  }
  /// Whether Runtime::reuse_distance holds of these plans: it tells of devices that take one microbatch
  /// through forward and backward, then the next.
  [[nodiscard]] bool reuses_gathered() const {
    return pipesim::reuses_gathered(costs().runtime(), options_.state_sharding,
                                    options_.pipeline.has_value());
  }
  /// Whether devices compute nothing while their stages send each other tensors.
  [[nodiscard]] bool messages_block() const;
  /// Whether tokens travel to their experts, or back, with this tensor or its gradient, by a dispatcher that
  /// the runtime names.
  [[nodiscard]] bool is_dispatched(TensorId tensor) const;
  /// Whether forward of one microbatch runs beside backward of another (ScheduleKind::pairs). Else devices
  /// compute nothing while tokens are dispatched.
  [[nodiscard]] bool pairs_passes() const;
  /// Whether the weight's gradients are reduced after each microbatch, and not once for all of them.
  [[nodiscard]] bool syncs_each_microbatch(TensorId weight, const BoundStrategy& strategy) const;
  /// What the uses in one stage of a pipeline need of a weight, on the devices of all ways.
  [[nodiscard]] LayoutId needed_in(std::int32_t stage, TensorId weight, const BoundStrategy& strategy) const;
  /// Returns the layout from which the parts in `target` are gathered: the weight's state, or, where several
  /// stages have all parts of that, what the devices of `target` have of it.
  [[nodiscard]] LayoutId gathered_from(TensorId weight, LayoutId target, const BoundStrategy& strategy) const;
  /// Gathers a weight from gathered_from() into `target`.
  [[nodiscard]] const CommunicationPlan& gather_plan(TensorId weight, LayoutId target,
                                                     const BoundStrategy& strategy) const;
  /// Whether that gather moves or copies anything.
  [[nodiscard]] bool gathers(TensorId weight, LayoutId target, const BoundStrategy& strategy) const;
  /// StateSharding::copies_to_use(), of weights that are trained.
  [[nodiscard]] bool copies_to_use(TensorId weight) const;
  /// Updates of the weights that the operator owns; it must own one.
  [[nodiscard]] const OwnedUpdates& update_work(OperatorId owner, const BoundStrategy& strategy) const;
  /// Calls visit(operator, its update_work()) for each operator that owns trained weights.
  template <class Visit>
  void for_each_update(const BoundStrategy& strategy, Visit visit) const {
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      const OperatorId owner(i);
      if (!backward_->owned_weights(owner).empty()) visit(owner, update_work(owner, strategy));
    }
  }
  /// By device, the bytes that it holds all the time: weights, accumulated gradients and their buckets,
  /// optimizer state.
  [[nodiscard]] std::vector<WeightMemory> permanent_memory(const BoundStrategy& strategy) const;
  /// By device, the bytes of gradient_bucket_elements(), but no more than its gradients fill.
  [[nodiscard]] std::vector<Bytes> gradient_buckets(const BoundStrategy& strategy) const;
  /// The type of the first weight that is trained.
  [[nodiscard]] DataType trained_type() const;
  /// Whether Runtime::keeps_own_gradients holds of these plans.
  [[nodiscard]] bool keeps_own_gradients() const;
  /// The elements of a device's buckets (Runtime::bucket): of two, which take turns, where reductions run
  /// beside backward and weights are whole; else of one. 0: there are none, as where no state is divided, and
  /// where gradients accumulate whole in a wider type than that of weights, and are reduced where they stand.
  [[nodiscard]] std::int64_t gradient_bucket_elements() const;

  /// Forgets communication plans when they take more than `most` bytes, and then returns true. Results do not
  /// change. No other thread may use this meanwhile.
  bool forget_plans(Bytes most);
  /// Also forgets bound operators and layouts when all together take more than `most` bytes. Everything that
  /// bind() and layouts() ever returned becomes invalid then.
  bool forget(Bytes most);
  /// Returns about how much memory these results take.
  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] std::uint64_t generation() const { return tables_->generation; }  ///< how often it forgot

 private:
  struct Tables {
    Tables(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options);
    const OperatorGraph& graph;
    const CostModel* costs;
    PlanOptions options;  // but for pipeline and recompute
    ExpertLoads loads;
    LayoutTable layouts;
    std::shared_ptr<DeviceGroupTable> groups = std::make_shared<DeviceGroupTable>();
    CommunicationPricesByThread prices;
    BoundOperators bound;
    CommunicationPlans plans;
    WeightUpdates updates;
    MadeSchedules schedules;
    std::uint64_t generation = 0;
  };
  /// The strategy that strategy_of() was asked for last, and what it is for each way.
  struct Ways {
    std::uint64_t generation = 0;
    BoundStrategy strategy;
    std::vector<BoundStrategy> of_way;
  };
  PlanContents(std::shared_ptr<Tables> tables, PlanOptions options,
               std::shared_ptr<const BackwardUses> backward);
  void forget_derived();
  [[nodiscard]] LayoutId state_of(TensorId weight, LayoutId home, const BoundStrategy& strategy) const;
  void list_dividing_terms(TensorId weight, const BoundStrategy& strategy, LayoutIds& out) const;
  [[nodiscard]] std::int32_t holding_stages(TensorId weight, const BoundStrategy& strategy) const;

  std::shared_ptr<Tables> tables_;
  PlanOptions options_;
  WeightVersions versions_;
  Recomputation recomputation_;
  std::shared_ptr<const BackwardUses> backward_;
  std::int32_t ways_ = 1;
  mutable Ways last_;
  mutable Ways folded_;  // see know_ways()
};

}  // namespace pipesim
