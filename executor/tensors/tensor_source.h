#pragma once

#include <cstdint>
#include <vector>

#include "executor/operators/step_context.h"
#include "executor/program/program.h"
#include "executor/tensors/host_moves.h"
#include "models/operator_graph.h"

namespace pipesim {

/// What tensors hold that no operator makes: data, initial weights, the gradient of the model's results.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// Fills a piece with what the whole tensor has in its box in this step.
  virtual void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
                    const StepContext& step) const = 0;
};

/// By tensor: its indices must be below this, the smallest bound that its readers set (rows of an embedding,
/// classes of a loss), also behind operators that only move it. INT64_MAX when none does.
[[nodiscard]] std::vector<std::int64_t> index_bounds(const OperatorGraph& graph);

/// Numbers from a seed: each element depends on the seed, the tensor's name, its place in the whole tensor,
/// and, for data, on the step and the sample's number in the global batch. So every plan of a model gets the
/// same tensors.
///
/// Weights are uniform with variance 1 / (length of what is contracted with them), scales of norms lie near
/// 1, biases near 0. Indices are below what their readers allow (rows of an embedding, classes of a loss).
class SyntheticSource : public TensorSource {
 public:
  explicit SyntheticSource(const OperatorGraph& graph);
  void fill(Loaded::Content content, TensorId tensor, const HostPiece& piece,
            const StepContext& step) const override;

 private:
  struct Law {
    double center = 0, reach = 1;  ///< floating point: uniform in [center − reach, center + reach)
    std::int64_t below = 2;        ///< integers: uniform in [0, below)
  };
  const OperatorGraph& graph_;
  std::vector<Law> laws_;  // by tensor
};

}  // namespace pipesim
