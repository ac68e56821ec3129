#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "search/evaluator.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/analysis/traces/trace_constants.h"
#include "tools/analysis/traces/work_class.h"

namespace pipesim {

/// A product whatever its operands' order: rows ≤ columns, no attention.
struct ProductKey {
  std::int64_t batch = 1, rows = 1, columns = 1, inner = 1;
  auto operator<=>(const ProductKey&) const = default;
};
/// Nothing for attention.
std::optional<ProductKey> product_key(const MatrixSize& size);

struct TimeAndCalls {
  Seconds time;
  std::int64_t calls = 0;
};

/// What one device does in an iteration, by class of work.
struct StepWork {
  Seconds length;
  Seconds idle;  ///< the device computes nothing, and none of its collectives runs
  std::vector<TimeAndCalls> classes = std::vector<TimeAndCalls>(num_work_classes);
  std::map<ProductKey, TimeAndCalls> products;  ///< those of known size; part of the class Products
};

/// The simulated iteration on one device. `part`: all of its tasks, with labels. Kernels that a framework
/// launches apart from a product or from attention (casts, sums of biases' gradients, gradients added to a
/// sum) are counted apart from it: gradients as gradient sums, activations as such, the others as other
/// kernels.
StepWork predicted_work(const SimulatedPart& part, const Plan& plan, DeviceId device);
/// What the predicted step says of host and update, for constants.
PredictedShares predicted_shares(const SimulatedPart& part, DeviceId device);

/// Returns the work of a measured step. The time of a class sums its kernels, also where they run side by
/// side.
StepWork measured_work(const MeasuredTrace& trace, const TracedStep& step, const StepTimes& times);

}  // namespace pipesim
