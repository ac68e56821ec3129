#pragma once

#include <vector>

#include "models/backward_need.h"
#include "search/lower_bound/passes.h"
#include "taskgraph/binding/bound_operator.h"

namespace pipesim {

/// The weights that one update task of an operator covers: the operator is the first to use them, and a
/// gradient reaches them.
struct TrainedWeights {
  std::vector<TensorId> owned;
};
std::vector<TrainedWeights> trained_weights(const OperatorGraph& graph);

/// Adds so many elements of the weight to what a device updates.
void add_part(const OperatorGraph& graph, const PlanOptions& options, TensorId weight, std::int64_t elements,
              UpdatedWeights& updated);
/// Weights of the type of this one, of which there are none yet.
UpdatedWeights no_weights_like(const OperatorGraph& graph, const PlanOptions& options, TensorId weight);

/// Earliest ends of passes on any device under any strategy, see LowerBound.
class ChainBounds {
 public:
  ChainBounds(const PassBounds& passes, const PlanOptions& options);

  [[nodiscard]] Nanoseconds longest() const;
  [[nodiscard]] Nanoseconds longest_crossing() const;

 private:
  void forward(OperatorId op);
  void backward(OperatorId op);
  [[nodiscard]] Nanoseconds inputs_ready(const Operator& op) const;
  [[nodiscard]] Nanoseconds some_input_ready(const Operator& op, FactorIndex axis) const;
  [[nodiscard]] Nanoseconds update(TensorId weight) const;
  [[nodiscard]] Nanoseconds gradient_of(UseRef use, double share) const;
  [[nodiscard]] Nanoseconds synchronised(UseRef use) const;
  [[nodiscard]] Nanoseconds pass_time(OperatorId op, Pass pass, double share) const;

  const PassBounds& passes_;
  const OperatorGraph& graph_;
  const PlanOptions& options_;
  std::vector<BackwardNeed> need_;           // per operator
  std::vector<double> share_;                // smallest of any shard
  std::vector<Nanoseconds> forward_end_;     // of any shard's forward pass
  std::vector<Nanoseconds> gradient_ready_;  // when any shard's backward passes may start
  std::vector<Nanoseconds> backward_end_;    // of any shard's input pass
  std::vector<TensorId> trained_;
  double widest_inlet_ = 0;  // bytes per second into the device with the widest links
};

}  // namespace pipesim
