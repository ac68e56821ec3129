#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/run/execution.h"
#include "executor/tensors/tensor_source.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// Whole tensors in float32 after a step, by name.
struct StepValues {
  std::map<TensorId, std::vector<float>> outputs;    ///< results, microbatches added up: the loss
  std::map<TensorId, std::vector<float>> gradients;  ///< of weights
  std::map<TensorId, std::vector<float>> weights;    ///< after the update
};

/// How far tensors are from a reference: max |x − y| / max |y| of each.
struct TensorError {
  std::string name;  ///< "gradient of conv1.w"
  double error = 0;
  double largest = 0;  ///< max |y|
};

/// Training steps of a model under a plan: the task graph, compiled and run.
class Training {
 public:
  struct Setting {
    Backend& backend;
    const TensorSource& source;
    std::span<Communicator* const> worlds;  ///< by device id; those of `local` are used
    std::vector<DeviceId> local;            ///< devices of this process
    std::uint64_t seed = 0;
    SumOrder sums = SumOrder::Ascending;
    /// Called with the predicted peaks of all devices before memory is taken; throws to stop.
    std::function<void(const std::vector<DeviceMemory>&)> before_allocation = {};
    bool arenas = false;  ///< one block of memory a device, in which each buffer has its place (plan_arenas)
  };
  /// `make_pace`: given the task graph and the order. All references must outlive this. InputError when an
  /// operator has no kernel.
  using MakePace = std::function<std::unique_ptr<Pace>(const TaskDag&, std::span<const TaskId>)>;
  Training(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
           const Strategy& strategy, Setting setting, const MakePace& make_pace);
  ~Training();

  StepRecord step();
  /// The tensors that values() returns after a step.
  enum class Keep : std::uint8_t { Nothing, Outputs, Everything };
  void keep_values(Keep keep) { keep_ = keep; }
  /// Values of the last step that this process has. In outputs, pieces of other processes are 0; elsewhere
  /// they are left out of the comparison.
  [[nodiscard]] const StepValues& values() const { return values_; }
  /// Compares this process's pieces of gradients and weights after the last step with whole tensors; worst
  /// first.
  [[nodiscard]] std::vector<TensorError> errors_against(const StepValues& reference) const;

  [[nodiscard]] const ExpandedStrategy& expanded() const { return expanded_; }
  [[nodiscard]] const TaskGraph& tasks() const { return expanded_.graph(); }
  [[nodiscard]] const Timeline& simulated() const { return simulated_; }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const std::vector<DeviceMemory>& predicted_memory() const { return predicted_memory_; }
  [[nodiscard]] Execution& execution() { return *execution_; }

 private:
  struct KeptPiece {
    Program::Result::Content content;
    TensorId tensor;
    Box box;
    std::vector<float> values;
  };
  [[nodiscard]] StepContext context() const;
  void load(bool first_step);
  void keep();

  const OperatorGraph& graph_;
  Setting setting_;
  PlanContents contents_;
  ExpandedStrategy expanded_;
  Timeline simulated_;
  std::vector<DeviceMemory> predicted_memory_;
  Program program_;
  std::unique_ptr<Pace> pace_;
  std::unique_ptr<Execution> execution_;
  std::int64_t steps_ = 0;
  Keep keep_ = Keep::Nothing;
  std::vector<KeptPiece> kept_;
  StepValues values_;
};

/// Differences between two runs of a model, worst first.
std::vector<TensorError> differences(const StepValues& values, const StepValues& reference,
                                     const OperatorGraph& graph);

}  // namespace pipesim
