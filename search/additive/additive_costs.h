#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "search/config_space.h"
#include "search/evaluator.h"
#include "search/intra/instance.h"
#include "search/intra/narrow.h"
#include "search/move_units.h"
#include "taskgraph/moving/traffic_bound.h"

namespace pipesim {

/// The weight of each kind of cost in a sum.
struct AdditiveWeights {
  double transfers = 1, synchronisation = 1;  ///< 0: hidden behind compute, 1: nothing overlaps with it
  double sequential = 1;  ///< 1: units compute one after the other; 0: side by side on equally busy devices
  Seconds longest{1e9};   ///< a unit may compute, where some choice takes no longer
};

/// How often each summand of a sum counts: operators, weights and tensors that are alike are priced once.
struct AdditiveCounts {
  std::vector<std::vector<double>> operators, weights;  ///< [unit][those that differ]
  std::vector<double> tensors;                          ///< that travel, by kind
  auto operator<=>(const AdditiveCounts&) const = default;
};

/// The costs of units of operators (move_units.h) under a few configs each, as a sum over units and pairs of
/// units: seconds of compute, of transfers between them and of the synchronisation of their weights, each as
/// if nothing else ran. Moving a tensor counts with its lower bound (traffic_bound.h) until it is planned. So
/// planning a solution's transfers and solving again ends at the least planned sum.
///
/// The choices of a unit are the configs that compute, synchronise and transfer to the unit itself fastest,
/// on one list of devices for each size and number of nodes, and the configs of the given strategies.
/// Gradients of several consumers count as if each were moved by itself. Where several units use a weight,
/// each counts its own gradient. What runs forward again counts twice. Weights that are gathered count as if
/// that took as long as reducing their gradients.
class AdditiveCosts {
 public:
  /// `starts`: numbers of configs by operator, of at least one strategy. Each unit has `most_choices`, or
  /// more where there are more starts; 0: as many as can be eliminated and bounded in short time. All
  /// arguments must outlive it.
  AdditiveCosts(const ConfigSpace& space, const MoveUnits& units, Evaluator& evaluator,
                const std::vector<std::vector<std::size_t>>& starts, std::size_t most_choices = 0);

  /// Returns the counts of the whole model.
  [[nodiscard]] const AdditiveCounts& all() const { return all_; }
  /// Returns the counts of a part of the model: the operators that are marked, by number, their weights, and
  /// the tensors that travel between them.
  [[nodiscard]] AdditiveCounts counts_of(const std::vector<bool>& operators) const;

  /// The sum as an instance of the intra-operator problem: a node for each unit, a strategy for each of its
  /// choices, or one alone where nothing of the unit counts. Costs are picoseconds: sums of these stay exact
  /// up to two hours (IntraSolution). Usages are 0.
  [[nodiscard]] IntraInstance instance(const AdditiveWeights& weights, const AdditiveCounts& counts) const;
  static constexpr double kUnit = 1e-12;  ///< seconds
  /// Returns, by [unit][choice], bytes of a microbatch on the device that holds most of each operator and
  /// weight, while `in_flight` microbatches have run forward and not backward. Weights, gradients and
  /// optimizer state count, and what operators make and keep for backward. What a layer holds that runs again
  /// or that gathered its weights counts once, or for the whole part under Recompute::Kind::Stage.
  [[nodiscard]] std::vector<std::vector<Bytes>> held(const AdditiveCounts& counts, std::int64_t in_flight);
  /// Returns, by [edge of instance()][as its costs], bytes of a microbatch that backward reads and that the
  /// consumer's fullest device got. Where several read a tensor, each counts its share. The bytes are a lower
  /// bound until the transfer is planned. held() has those within a unit.
  [[nodiscard]] std::vector<std::vector<Bytes>> held_of_moves(const AdditiveCounts& counts,
                                                              std::int64_t in_flight) const;
  /// Plans the transfers of a part under these choices (by unit); false when all of them were planned before.
  bool plan(const std::vector<std::uint32_t>& choice, const AdditiveCounts& counts);
  /// Plans the transfers of a part under all choices, and pairs of them, that `within` marks.
  void plan_all(const NarrowedChoices& within, const AdditiveCounts& counts);
  /// Returns how many plans plan_all() would make.
  [[nodiscard]] std::size_t to_plan(const NarrowedChoices& within, const AdditiveCounts& counts) const;
  [[nodiscard]] std::int64_t planned() const { return planned_; }  ///< plans so far
  /// The numbers of the operators' configs, by operator.
  [[nodiscard]] std::vector<std::size_t> configs(const std::vector<std::uint32_t>& choice) const;
  /// The same, but with every unit on the device list, of its size and number of nodes, that leaves the
  /// busiest device least to compute. Units with the most work come first.
  [[nodiscard]] std::vector<std::size_t> spread(const std::vector<std::uint32_t>& choice);

 private:
  struct Time {
    double seconds = 0;
    bool planned = false;  // else it is a lower bound
    Bytes kept = {};       // until backward, of what the consumer gets
  };
  // Tensors of one shape from one unit to another, or to itself.
  struct Flow {
    std::size_t from = 0, to = 0;
    TensorId tensor;  // one of them
    UseRef producer, consumer;
    std::int64_t keepers = 0;  // consumers that keep what they get until backward; 0: this one does not
    std::vector<Time> time;  // of one: [choice of from · choices of to + choice of to]; to itself: [choice]
  };
  // Elements of a layout on those devices that hold some.
  struct PartSizes {
    std::int64_t least = 0, most = 0;
  };
  struct Held {
    Bytes always, in_flight, once;
  };
  struct Choice {
    std::size_t config = 0;
    std::vector<double> compute;  // seconds, by operator of the unit: of one
    std::vector<double> load;     // seconds, by device: of all
    std::vector<Time> sync;       // by weight of the unit: of one
    std::vector<Held> held;       // by operator, then by weight; none until it is asked for
  };
  struct Unit {
    std::vector<OperatorId> operators;  // of alike ones the first
    std::vector<TensorId> weights;      // of alike ones the first
    std::vector<Choice> choices;
  };
  // A tensor that an operator makes. It counts together with the operator where its consumer counts too.
  struct Travel {
    std::size_t flow = 0;
    UseRef consumer;
    TensorId tensor;
  };
  struct Summands {
    std::size_t unit = 0, number = 0;  // itself
    std::vector<std::size_t> weights;  // by number in the unit
    std::vector<Travel> travels;
  };

  void list_units(const MoveUnits& units);
  [[nodiscard]] std::size_t number_of_weight(Unit& unit, TensorId weight) const;
  void list_flows();
  void list_kinds_of_lists();
  [[nodiscard]] std::vector<std::size_t> fastest(OperatorId op, std::size_t most) const;
  [[nodiscard]] double estimate(OperatorId op, const ParallelConfig& config) const;
  void choose(std::size_t unit, std::size_t most, const std::vector<std::vector<std::size_t>>& starts);
  [[nodiscard]] Choice choice_of(std::size_t unit, std::size_t config);
  [[nodiscard]] double cost_alone(std::size_t unit, const Choice& choice);
  [[nodiscard]] double compute_of(std::size_t unit, const Choice& choice, const AdditiveCounts& counts) const;
  [[nodiscard]] double sync_of(std::size_t unit, const Choice& choice, const AdditiveCounts& counts) const;
  [[nodiscard]] bool counts(std::size_t unit, const AdditiveCounts& counts) const;
  [[nodiscard]] double syncs() const;
  template <class Weights, class Flows>
  void unplanned(const NarrowedChoices& within, const AdditiveCounts& counts, Weights visit_weight,
                 Flows visit_flow) const;
  [[nodiscard]] std::size_t most_choices() const;
  [[nodiscard]] const BoundOperator& bind(OperatorId op, std::size_t config) const;
  [[nodiscard]] std::vector<double> load(std::size_t unit, std::size_t config) const;
  void with_config(std::size_t unit, TensorId weight, std::size_t config, const std::function<void()>& visit);
  void note_held(std::size_t unit, Choice& choice);
  [[nodiscard]] Held held_of(OperatorId op, std::size_t config) const;
  [[nodiscard]] Held state_of(TensorId weight) const;
  double sync_time(std::size_t unit, TensorId weight, std::size_t config, bool planned);
  Time flow_time(const Flow& flow, std::size_t from_config, std::size_t to_config, bool planned);
  Bytes kept_bytes(const Flow& flow, LayoutId data, LayoutId needed, bool planned);
  double transfer_time(TensorId tensor, Moved moved, LayoutId from, LayoutId target, bool planned);
  double least_time(TensorId tensor, TaskKind kind, std::span<const LayoutId> terms, LayoutId target);

  const ConfigSpace& space_;
  Evaluator& evaluator_;
  std::vector<std::size_t> unit_of_;  // by operator
  std::vector<Unit> units_;
  std::vector<Flow> flows_;
  std::vector<Summands> summands_;  // by operator
  AdditiveCounts all_;
  std::vector<std::vector<std::size_t>> nodes_of_list_;  // [size class][list]
  BoundStrategy others_;  // what operators have while one unit's weights are looked at
  LeastTraffic least_;
  std::map<std::vector<std::int64_t>, double> bounds_;  // by element size and layouts
  std::map<LayoutId, PartSizes> parts_;
  std::int64_t planned_ = 0;
};

}  // namespace pipesim
