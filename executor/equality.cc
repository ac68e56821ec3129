#include "executor/equality.h"

#include <algorithm>
#include <cmath>

namespace pipesim {
namespace {

Strategy unsplit_strategy(const OperatorGraph& graph) {
  Strategy strategy;
  for (const Operator& op : graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  return strategy;
}

// Half the distance from 1 to the next larger number.
double unit_roundoff(DataType type) {
  switch (type) {
    case DataType::BFloat16:
      return std::ldexp(1, -9);
    case DataType::Float16:
      return std::ldexp(1, -12);
    default:
      return std::ldexp(1, -24);
  }
}

}  // namespace

struct UnsplitReference::Run {
  Run(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
      const CpuBackend::Settings& settings, const Training::Setting& setting)
      : backend(graph, costs.topology().num_devices(), options.optimizer, settings),
        training(
            graph, costs, options, unsplit_strategy(graph),
            {backend, setting.source, setting.worlds, {DeviceId(0)}, setting.seed, setting.reversed_sums},
            [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); }) {
    training.keep_values(Training::Keep::Everything);
  }
  CpuBackend backend;
  Training training;
};

UnsplitReference::UnsplitReference(const OperatorGraph& graph, const CostModel& costs,
                                   const PlanOptions& options, const CpuBackend::Settings& settings,
                                   const TensorSource& source, std::span<Communicator* const> worlds,
                                   std::uint64_t seed)
    : graph_(graph) {
  for (const Tensor& t : graph.tensors()) least_noise_ = std::max(least_noise_, 8 * unit_roundoff(t.type));
  CpuBackend unused(graph, 0, options.optimizer, settings);
  Training::Setting setting{unused, source, worlds, {}, seed, false};
  plain_ = std::make_unique<Run>(graph, costs, options, settings, setting);
  setting.reversed_sums = true;
  reversed_ = std::make_unique<Run>(graph, costs, options, settings, setting);
}

UnsplitReference::~UnsplitReference() = default;

void UnsplitReference::step() {
  plain_->training.step();
  reversed_->training.step();
  noise_ = std::max(least_noise_, differences(reversed_->training.values(), values(), graph_).front().error);
}

const StepValues& UnsplitReference::values() const { return plain_->training.values(); }

StepEquality compare(const Training& split, const std::map<TensorId, std::vector<float>>& outputs,
                     const StepValues& reference, double noise, const OperatorGraph& graph) {
  StepValues results, expected;
  results.outputs = outputs;
  expected.outputs = reference.outputs;
  StepEquality equality{differences(results, expected, graph).front(), noise};
  const std::vector<TensorError> errors = split.errors_against(reference);
  if (!errors.empty() && errors.front().error > equality.worst.error) equality.worst = errors.front();
  return equality;
}

}  // namespace pipesim
