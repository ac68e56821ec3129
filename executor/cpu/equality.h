#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/cpu/cpu_backend.h"
#include "executor/run/training.h"

namespace pipesim {

/// The difference between a split run and the unsplit one in a step, compared with that of rounding alone.
struct StepEquality {
  TensorError worst;              ///< the output, gradient or weight that is furthest from its noise
  double noise = 0;               ///< of that tensor
  std::size_t compared = 0;       ///< tensors
  std::size_t rounding_only = 0;  ///< tensors that hold nothing but rounding errors, and were left out
};

/// The effect of rounding on the unsplit model: by tensor, how much it changes when sums are formed in other
/// orders and 16-bit results are rounded differently (cpu/other_rounding.h).
struct RoundingNoise {
  /// By TensorError::name, at least eight unit roundoffs of the model's narrowest type. A few orders of sums
  /// don't show everything that can happen to a single number, and a split run rounds in places where the
  /// unsplit one does not: addends that are sent, and gradients added one after the other.
  std::map<std::string, double> of;
  /// Tensors that can't be compared to within 1% (float32; bfloat16: three eighths), because rounding changes
  /// them too much. The gradient of a key's bias in attention is 0, and deep networks with batch norm over
  /// few samples amplify every rounding error.
  std::set<std::string> rounding_only;
};

/// Compares `split` after a step with the unsplit model's values. `outputs`: complete results of the split
/// run, from all processes together.
StepEquality compare(const Training& split, const std::map<TensorId, std::vector<float>>& outputs,
                     const StepValues& reference, const RoundingNoise& noise, const OperatorGraph& graph);

/// Runs a model unsplit on one device, step by step, as the reference of a plan.
class UnsplitReference {
 public:
  /// An error of up to this many times the tensor's noise counts as rounding.
  static constexpr double allowed_factor = 4;
  /// Runs on device 0 of the topology. All arguments must outlive this. `worlds` and before_allocation are as
  /// in Training::Setting; the latter is called for each run, and there is one run for each order of sums.
  UnsplitReference(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                   const CpuBackend::Settings& settings, const TensorSource& source,
                   std::span<Communicator* const> worlds, std::uint64_t seed,
                   std::function<void(const std::vector<DeviceMemory>&)> before_allocation = {});
  ~UnsplitReference();
  /// One step.
  void step();
  [[nodiscard]] const StepValues& values() const;
  /// The effect of rounding on the last step.
  [[nodiscard]] const RoundingNoise& noise() const { return noise_; }
  [[nodiscard]] static bool equal(const StepEquality& e) {
    return e.compared > 0 && e.worst.error <= allowed_factor * e.noise;
  }

 private:
  struct Run;
  std::unique_ptr<Run> plain_;
  std::vector<std::unique_ptr<Run>> reordered_;  // by other_sum_orders
  const OperatorGraph& graph_;
  double unit_roundoff_ = 0;  // of the model's narrowest type
  RoundingNoise noise_;
};

}  // namespace pipesim
