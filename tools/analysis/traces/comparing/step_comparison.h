#pragma once

#include <string>
#include <vector>

#include "tools/analysis/traces/comparing/predicted_step.h"

namespace pipesim {

/// A class of work, or products of one size, predicted beside measured.
struct ComparedWork {
  std::string name;  ///< "attention", "products 1024x4096 over 2048", "idle"
  TimeAndCalls predicted, measured;
  [[nodiscard]] Seconds difference() const { return predicted.time - measured.time; }
};

struct StepComparison {
  std::string predicted_name, measured_name;  ///< "gpt on dgx-h100:gpus=1, gpu0", "step 2"
  Seconds predicted, measured;                ///< of the whole step
  std::vector<ComparedWork> work;             ///< the largest differences first; nothing that is 0 in both
};

/// InputError when both have products of known sizes, and none of them in common: `the trace has no product
/// of the model …`.
StepComparison compare_steps(const StepWork& predicted, const StepWork& measured);

}  // namespace pipesim
