#include "executor/equality.h"

#include <algorithm>

namespace pipesim {
namespace {

Strategy unsplit_strategy(const OperatorGraph& graph) {
  Strategy strategy;
  for (const Operator& op : graph.operators()) strategy.push_back(single_device(op, DeviceId(0)));
  return strategy;
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
  noise_ = differences(reversed_->training.values(), values(), graph_).front().error;
}

const StepValues& UnsplitReference::values() const { return plain_->training.values(); }

StepEquality UnsplitReference::compare(const Training& split,
                                       const std::map<TensorId, std::vector<float>>& outputs) const {
  StepValues results, expected;
  results.outputs = outputs;
  expected.outputs = values().outputs;
  StepEquality equality{differences(results, expected, graph_).front(), noise_};
  const std::vector<TensorError> errors = split.errors_against(values());
  if (!errors.empty() && errors.front().error > equality.worst.error) equality.worst = errors.front();
  return equality;
}

bool UnsplitReference::equal(const StepEquality& e) {
  return e.worst.error <= allowed_factor * std::max(e.noise, least_noise);
}

}  // namespace pipesim
