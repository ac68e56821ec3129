#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/shard_kernel.h"
#include "models/operators/expert_parts.h"
#include "taskgraph/moving/layout.h"
#include "taskgraph/plan/imbalance.h"
#include "taskgraph/plan/parallel_config.h"

namespace pipesim {

/// The tokens of a model's experts where these are not loaded evenly. An all-to-all ends when the fullest
/// device has its tokens, and the next waits for all, so every shard of an operator over experts is taken to
/// be as full as the fullest. Where one device has all experts, its load is the mean, whatever each has.
class ExpertLoads {
 public:
  ExpertLoads() = default;  ///< even
  /// InputError where the model can't have the imbalance, see illegal().
  ExpertLoads(const OperatorGraph& graph, const Imbalance& imbalance);

  /// The load of the fullest shard, in shares of the mean; ≥ 1.
  [[nodiscard]] TokenLoad of(OperatorId id, const Operator& op, const ParallelConfig& config) const;
  /// The load of the fullest box along the dimension of the experts (≥ 0); ≥ 1.
  [[nodiscard]] double of(std::int32_t dimension, const Layout& layout) const;
  /// The dimension of a tensor's experts; −1 where it has none, or their load does not count.
  [[nodiscard]] std::int32_t dimension(TensorId tensor) const {
    return parts_.dimension.empty() ? -1 : parts_.dimension[tensor.index()];
  }
  [[nodiscard]] ExpertParts::OfOperator factors(OperatorId op) const {
    return parts_.operators.empty() ? ExpertParts::OfOperator() : parts_.operators[op.index()];
  }

 private:
  Imbalance imbalance_;
  ExpertParts parts_;  // empty where the load is even
};

/// Tokens or bytes of a mean load under another, rounded up.
std::int64_t loaded(std::int64_t mean, double load);

}  // namespace pipesim
