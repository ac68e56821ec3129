#include "search/joint/joint_plan.h"

#include <algorithm>

#include "sim/base/errors.h"

namespace pipesim {

JointPlan joint_plan(const OperatorGraph& graph, const Topology& topology, std::int32_t microbatches,
                     const Strategy& strategy, const std::optional<Pipeline>& pipeline) {
  JointPlan plan;
  plan.microbatches = microbatches;
  plan.pipeline = pipeline.value_or(Pipeline{"1f1b", std::vector<std::int32_t>(strategy.size(), 0)});
  const auto stages = static_cast<std::size_t>(plan.pipeline.num_stages());
  std::vector<StageGroup> groups(stages);
  const auto add = [](StageGroup& group, const std::vector<DeviceId>& devices) {
    for (const DeviceId d : devices) {
      if (std::ranges::find(group, d) == group.end()) group.push_back(d);
    }
  };
  for (std::size_t s = 0; s < stages; ++s) {
    const ParallelConfig* widest = nullptr;
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      const bool here = plan.pipeline.stage_of[i] == static_cast<std::int32_t>(s);
      if (here && (!widest || strategy[i].devices.size() > widest->devices.size())) widest = &strategy[i];
    }
    if (!widest) throw InternalError("a stage without operators");
    add(groups[s], widest->devices);
    for (std::size_t i = 0; i < strategy.size(); ++i) {
      if (plan.pipeline.stage_of[i] == static_cast<std::int32_t>(s)) add(groups[s], strategy[i].devices);
    }
  }
  for (const StageGroup& group : groups) {
    const auto has_them = [&](const StageMesh& mesh) {
      return std::ranges::is_permutation(mesh.devices, group);
    };
    if (std::ranges::none_of(plan.meshes, has_them)) plan.meshes.push_back({group, 1});
  }
  const Strategy plain = staged_strategy(graph, topology, plan.pipeline, plan.meshes).strategy;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    if (strategy[i] != plain[i]) plan.own.emplace(static_cast<std::int32_t>(i), strategy[i]);
  }
  return plan;
}

JointEvaluator::JointEvaluator(ModelOf model_of, const CostModel& costs, PlanOptions options)
    : model_of_(std::move(model_of)), costs_(costs), options_(std::move(options)) {
  options_.pipeline.reset();
}

std::unique_ptr<JointEvaluator> JointEvaluator::another() const {
  return std::make_unique<JointEvaluator>(model_of_, costs_, options_);
}

JointEvaluator::Model& JointEvaluator::model(std::int32_t microbatches) {
  const auto [found, is_new] = models_.try_emplace(microbatches);
  Model& model = found->second;
  if (!is_new) return model;
  model.graph = model_of_(microbatches);
  if (!model.graph) return model;
  PlanOptions options = options_;
  options.microbatches = microbatches;
  model.evaluator = std::make_unique<Evaluator>(*model.graph, costs_, options);
  return model;
}

const OperatorGraph* JointEvaluator::graph(std::int32_t microbatches) {
  const Model& found = model(microbatches);
  return found.graph ? &*found.graph : nullptr;
}

PlanOptions JointEvaluator::options(const JointPlan& plan) const {
  PlanOptions options = options_;
  options.microbatches = plan.microbatches;
  options.recompute = {plan.recompute, {}};
  if (plan.pipeline.num_stages() > 1) options.pipeline = plan.pipeline;
  return options;
}

Strategy JointEvaluator::strategy(const JointPlan& plan) {
  Strategy strategy =
      staged_strategy(*graph(plan.microbatches), topology(), plan.pipeline, plan.meshes).strategy;
  for (const auto& [op, config] : plan.own) strategy[static_cast<std::size_t>(op)] = config;
  return strategy;
}

std::optional<Evaluation> JointEvaluator::evaluate(const JointPlan& plan) {
  Model& found = model(plan.microbatches);
  if (!found.graph) return std::nullopt;
  const Strategy made = strategy(plan);
  PlanOptions now = options(plan);
  if (illegal(*found.graph, made, now, topology())) return std::nullopt;
  found.evaluator->builder().set_pipeline(std::move(now.pipeline), std::move(now.recompute));
  constexpr std::int64_t kMostBytes = 500'000'000;
  found.evaluator->forget(Bytes(kMostBytes / sharing_));
  return found.evaluator->score(made);
}

}  // namespace pipesim
