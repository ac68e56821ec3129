#include "executor/cpu/equality.h"

#include <algorithm>
#include <cmath>

#include "executor/elements/rounding.h"

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
        training(graph, costs, options, unsplit_strategy(graph),
                 {backend,
                  setting.source,
                  setting.worlds,
                  {DeviceId(0)},
                  setting.seed,
                  setting.sums,
                  setting.before_allocation},
                 [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); }) {
    training.keep_values(Training::Keep::Everything);
  }
  CpuBackend backend;
  Training training;
};

UnsplitReference::UnsplitReference(const OperatorGraph& graph, const CostModel& costs,
                                   const PlanOptions& options, const CpuBackend::Settings& settings,
                                   const TensorSource& source, std::span<Communicator* const> worlds,
                                   std::uint64_t seed,
                                   std::function<void(const std::vector<DeviceMemory>&)> before_allocation)
    : graph_(graph) {
  for (const Tensor& t : graph.tensors()) unit_roundoff_ = std::max(unit_roundoff_, unit_roundoff(t.type));
  // The same microbatches, one after the other, and nothing run again. Where stages decide which weights a
  // microbatch meets, they still do; where nothing is trained, nothing is.
  PlanOptions unpiped = options;
  const WeightVersions versions(options.pipeline, options.microbatches);
  if (!versions.several() && versions.trained()) unpiped.pipeline.reset();
  unpiped.recompute = {};
  CpuBackend unused(graph, 0, options.optimizer, settings);
  Training::Setting setting{
      unused, source, worlds, {}, seed, SumOrder::Ascending, std::move(before_allocation)};
  plain_ = std::make_unique<Run>(graph, costs, unpiped, settings, setting);
  for (const SumOrder order : other_sum_orders) {
    setting.sums = order;
    reordered_.push_back(std::make_unique<Run>(graph, costs, unpiped, settings, setting));
  }
}

UnsplitReference::~UnsplitReference() = default;

void UnsplitReference::step() {
  plain_->training.step();
  constexpr double least = 8, most = 24, comparable = 0.01;
  const double too_large = std::max(comparable / allowed_factor, most * unit_roundoff_);
  noise_ = {};
  for (const std::unique_ptr<Run>& run : reordered_) {
    run->training.step();
    for (const TensorError& e : differences(run->training.values(), values(), graph_)) {
      if (e.error > too_large) noise_.rounding_only.insert(e.name);
      double& noise = noise_.of.try_emplace(e.name, least * unit_roundoff_).first->second;
      noise = std::max(noise, e.error);
    }
  }
}

const StepValues& UnsplitReference::values() const { return plain_->training.values(); }

StepEquality compare(const Training& split, const std::map<TensorId, std::vector<float>>& outputs,
                     const StepValues& reference, const RoundingNoise& noise, const OperatorGraph& graph) {
  StepValues results, expected;
  results.outputs = outputs;
  expected.outputs = reference.outputs;
  std::vector<TensorError> errors = split.errors_against(reference);
  for (TensorError& e : differences(results, expected, graph)) errors.push_back(std::move(e));
  StepEquality equality;
  double furthest = -1;
  for (TensorError& e : errors) {
    const double of = noise.of.at(e.name);
    // Where the unsplit model has lost its numbers, there is nothing to compare with.
    if (std::isinf(of) || (noise.rounding_only.contains(e.name) && !std::isinf(e.error))) {
      ++equality.rounding_only;
      continue;
    }
    ++equality.compared;
    if (!(e.error / of > furthest)) continue;
    furthest = e.error / of;
    equality.noise = of;
    equality.worst = std::move(e);
  }
  return equality;
}

}  // namespace pipesim
