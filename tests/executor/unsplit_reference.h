#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "executor/cpu/cpu_backend.h"
#include "executor/cpu/equality.h"
#include "tests/executor/communication/threads_of_one_process.h"
#include "tests/executor/tested_devices.h"
#include "tests/seeds.h"

namespace pipesim {

inline constexpr std::size_t most_devices = 8;

inline CpuBackend::Settings unpinned() {
  CpuBackend::Settings s;
  s.pin = false;
  return s;
}

inline constexpr std::size_t compared_steps = 2;

// Two steps of a model unsplit, to compare plans with.
class Reference {
 public:
  bool arenas = false;  // of the plans that are compared

  Reference(const OperatorGraph& graph, const CostModel& costs, const ThreadWorld& world,
            const TensorSource& source, const PlanOptions& options = {})
      : graph_(graph), costs_(costs), world_(world), options_(options), source_(source) {
    UnsplitReference reference(graph, costs, options, unpinned(), source_, world.worlds(), seed);
    for (std::size_t s = 0; s < compared_steps; ++s) {
      reference.step();
      values_.push_back(reference.values());
      noise_.push_back(reference.noise());
    }
  }

  void check(const Strategy& strategy) {
    Split split(*this, strategy);
    Training& training = split.training;
    for (std::size_t s = 0; s < compared_steps; ++s) {
      training.step();
      const StepEquality e = compare(training, training.values().outputs, values_[s], noise_[s], graph_);
      ASSERT_TRUE(UnsplitReference::equal(e))
          << e.worst.name << " differs by " << e.worst.error << " in step " << s << ", noise " << e.noise;
    }
  }

  // Checks a strategy under other options, which compute the same.
  void check(const Strategy& strategy, const PlanOptions& options) {
    const PlanOptions own = std::exchange(options_, options);
    check(strategy);
    options_ = own;
  }

  // Compares the first step under a plan whose weights and data come from another source.
  StepEquality equality_of(const Strategy& strategy, const TensorSource& source) {
    Split split(*this, strategy, source);
    split.training.step();
    return compare(split.training, split.training.values().outputs, values_[0], noise_[0], graph_);
  }

  // Compares the first step under a plan with references in which one gradient is half as large. Returns the
  // results by weight, for the gradients that can be compared.
  std::map<TensorId, StepEquality> equalities_with_half_a_gradient(const Strategy& strategy) {
    Split split(*this, strategy);
    split.training.step();
    std::map<TensorId, StepEquality> found;
    for (const auto& [weight, gradient] : values_[0].gradients) {
      if (noise_[0].rounding_only.contains("gradient of " + graph_.tensor(weight).name)) continue;
      StepValues expected = values_[0];
      for (float& x : expected.gradients.at(weight)) x /= 2;
      found[weight] = compare(split.training, split.training.values().outputs, expected, noise_[0], graph_);
    }
    return found;
  }

  // Values after so many steps under a plan.
  StepValues values_of(const Strategy& strategy, const PlanOptions& options, int steps = 1) {
    const PlanOptions own = std::exchange(options_, options);
    Split split(*this, strategy);
    for (int s = 0; s < steps; ++s) split.training.step();
    options_ = own;
    return split.training.values();
  }

  Program program_of(const Strategy& strategy, const PlanOptions& options) {
    const PlanOptions own = std::exchange(options_, options);
    const Split split(*this, strategy);
    options_ = own;
    return split.training.program();
  }

  // Errors of results and gradients.
  std::vector<TensorError> errors_of_first_step(const Strategy& strategy) {
    Split split(*this, strategy);
    split.training.step();
    std::vector<TensorError> errors = split.training.errors_against(values_[0]);
    StepValues results, expected;
    results.outputs = split.training.values().outputs;
    expected.outputs = values_[0].outputs;
    for (TensorError& e : differences(results, expected, graph_)) errors.push_back(std::move(e));
    return errors;
  }

 private:
  struct Split {
    Split(const Reference& r, const Strategy& strategy) : Split(r, strategy, r.source_) {}
    Split(const Reference& r, const Strategy& strategy, const TensorSource& source)
        : devices(make_tested_devices(r.graph_, most_devices, r.options_.optimizer)),
          training(r.graph_, r.costs_, r.options_, strategy,
                   {devices->backend(),
                    source,
                    r.world_.worlds(),
                    r.world_.devices(),
                    seed,
                    SumOrder::Ascending,
                    {},
                    r.arenas || devices->arenas()},
                   [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); }) {
      training.keep_values(Training::Keep::Everything);
    }
    std::unique_ptr<TestedDevices> devices;
    Training training;
  };

  static constexpr std::uint64_t seed = 7;
  const OperatorGraph& graph_;
  const CostModel& costs_;
  const ThreadWorld& world_;
  PlanOptions options_;
  const TensorSource& source_;
  std::vector<StepValues> values_;
  std::vector<RoundingNoise> noise_;
};

}  // namespace pipesim
