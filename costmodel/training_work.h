#pragma once

#include <cstdint>
#include <functional>

#include "models/operator_graph.h"
#include "topologies/topology.h"

namespace pipesim {

/// The work of one microbatch as practitioners count it, to compare runs.
struct TrainingWork {
  /// 3 times the forward FLOPs of matrix products and attention: forward once, backward twice. All pairs of
  /// query and key count, masked ones too; what runs again does not (Narayanan et al., arXiv:2104.04473,
  /// section 5.1; Chowdhery et al., arXiv:2204.02311, appendix B).
  double model_flops = 0;
  /// The same, and forward once more of operators that run again.
  double hardware_flops = 0;
  /// Tokens that the loss counts; 0 where a sample has a single label.
  std::int64_t tokens = 0;
};
/// `again`: whether an operator runs forward a second time; empty: none does.
TrainingWork training_work(const OperatorGraph& graph, const std::function<bool(OperatorId)>& again = {});

/// The peak rate of all devices together, for the type of the model's matrix products.
FlopsPerSecond peak_rate(const OperatorGraph& graph, const Topology& topology);

}  // namespace pipesim
