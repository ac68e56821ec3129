#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "search/additive/min_sum.h"
#include "search/config_space.h"
#include "search/evaluator.h"
#include "search/move_units.h"
#include "taskgraph/moving/traffic_bound.h"

namespace pipesim {

/// The weight of each kind of cost in a sum.
struct AdditiveWeights {
  double transfers = 1, synchronisation = 1;  ///< 0: hidden behind compute, 1: nothing overlaps with it
  double sequential = 1;  ///< 1: units compute one after the other; 0: side by side on equally busy devices
  Seconds longest{1e9};   ///< a unit may compute, where some choice takes no longer
};

/// The costs of units of operators (move_units.h) under a few configs each, as a sum over units and pairs of
/// units: seconds of compute, of transfers between them and of the synchronisation of their weights, each as
/// if nothing else ran. Moving a tensor counts with its lower bound (traffic_bound.h) until it is planned. So
/// planning a solution's transfers and solving again ends at the least planned sum.
///
/// The choices of a unit are the configs that compute, synchronise and transfer to the unit itself fastest,
/// on one list of devices for each size and number of nodes, and the configs of the given strategies.
/// Gradients of several consumers count as if each were moved by itself. Where several units use a weight,
/// each counts its own gradient.
class AdditiveCosts {
 public:
  /// `starts`: numbers of configs by operator, of at least one strategy. All arguments must outlive it.
  AdditiveCosts(const ConfigSpace& space, const MoveUnits& units, Evaluator& evaluator,
                const std::vector<std::vector<std::size_t>>& starts);

  /// A variable for each unit, a value for each of its choices.
  [[nodiscard]] MinSumProblem problem(const AdditiveWeights& weights) const;
  /// [unit][choice]: bytes that the device which holds most of it holds at the end of a forward pass:
  /// weights, gradients and optimizer state of the unit, and what its operators make and keep for backward.
  [[nodiscard]] std::vector<std::vector<Bytes>> held();
  /// Plans the transfers under these choices (by unit); false when all of them were planned before.
  bool plan(const std::vector<std::size_t>& choice);
  /// Plans the transfers under all choices.
  void plan_all();
  [[nodiscard]] std::int64_t planned() const { return planned_; }  ///< plans so far

  /// The numbers of the operators' configs, by operator.
  [[nodiscard]] std::vector<std::size_t> configs(const std::vector<std::size_t>& choice) const;
  /// The same, but with every unit on the device list, of its size and number of nodes, that leaves the
  /// busiest device least to compute. Units with the most work come first.
  [[nodiscard]] std::vector<std::size_t> spread(const std::vector<std::size_t>& choice);

 private:
  struct Time {
    double seconds = 0;
    bool planned = false;  // else it is a lower bound
  };
  // Tensors of one shape from one unit to another, or to itself.
  struct Flow {
    std::size_t from = 0, to = 0;
    TensorId tensor;  // one of them
    UseRef producer, consumer;
    double tensors = 0;
    std::vector<Time> time;  // [choice of from · choices of to + choice of to]; to itself: [choice]
  };
  struct Weight {
    TensorId weight;
    double alike = 0;  // so many
  };
  struct Choice {
    std::size_t config = 0;
    double compute = 0;        // seconds, one operator after the other
    std::vector<double> load;  // seconds, by device
    Time sync;
  };
  struct Unit {
    std::vector<std::pair<OperatorId, double>> members;  // of alike ones the first, and how many there are
    std::vector<Weight> weights;
    std::vector<Choice> choices;
  };

  void list_units(const MoveUnits& units);
  void add_weight(Unit& unit, TensorId weight) const;
  void list_flows();
  void list_kinds_of_lists();
  [[nodiscard]] std::vector<std::size_t> fastest(OperatorId op, std::size_t most) const;
  [[nodiscard]] double estimate(OperatorId op, const ParallelConfig& config) const;
  void choose(std::size_t unit, std::size_t most, const std::vector<std::vector<std::size_t>>& starts);
  [[nodiscard]] std::size_t most_choices() const;
  [[nodiscard]] const BoundOperator& bind(OperatorId op, std::size_t config) const;
  [[nodiscard]] double compute(const Unit& unit, std::size_t config) const;
  [[nodiscard]] std::vector<double> load(const Unit& unit, std::size_t config) const;
  template <class Visit>
  void with_config(std::size_t unit, const Weight& weight, std::size_t config, Visit visit);
  void add_state(TensorId weight, std::int64_t times, std::vector<Bytes>& held) const;
  void add_kept(const Unit& unit, std::size_t config, std::vector<Bytes>& held) const;
  double sync_time(std::size_t unit, std::size_t config, bool planned);
  double flow_time(const Flow& flow, std::size_t from_config, std::size_t to_config, bool planned);
  double transfer_time(TensorId tensor, std::span<const LayoutId> terms, LayoutId target, bool planned);
  double least_time(TensorId tensor, TaskKind kind, std::span<const LayoutId> terms, LayoutId target);
  [[nodiscard]] Time& time_of(Flow& flow, const std::vector<std::size_t>& choice) const;

  const ConfigSpace& space_;
  Evaluator& evaluator_;
  std::vector<std::size_t> unit_of_;  // by operator
  std::vector<Unit> units_;
  std::vector<Flow> flows_;
  std::vector<std::vector<std::size_t>> nodes_of_list_;  // [size class][list]
  BoundStrategy others_;  // what operators have while one unit's weights are looked at
  LeastTraffic least_;
  std::map<std::vector<std::int64_t>, double> bounds_;  // by element size and layouts
  std::int64_t planned_ = 0;
};

}  // namespace pipesim
