#include "search/joint/joint_evaluator.h"

#include <algorithm>
#include <utility>

namespace pipesim {

JointEvaluator::JointEvaluator(ModelOf model_of, const CostModel& costs, PlanOptions options)
    : model_of_(std::move(model_of)),
      costs_(costs),
      options_(std::move(options)),
      scores_(std::make_shared<JointScores>()) {
  options_.pipeline.reset();
}

std::unique_ptr<JointEvaluator> JointEvaluator::another() const {
  auto other = std::make_unique<JointEvaluator>(model_of_, costs_, options_);
  other->scores_ = scores_;
  return other;
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
  if (plan.has_pipeline()) options.pipeline = plan.pipeline;
  return options;
}

Strategy JointEvaluator::strategy(const JointPlan& plan) {
  Strategy strategy =
      staged_strategy(*graph(plan.microbatches), topology(), plan.pipeline, plan.meshes).strategy;
  for (const auto& [op, config] : plan.own) strategy[static_cast<std::size_t>(op)] = config;
  return strategy;
}

std::optional<Evaluation> JointEvaluator::evaluate(const JointPlan& plan, const Hopeless& hopeless) {
  const PlanDigest digest = digest_of(plan);
  std::optional<JointScore> found = scores_->find(digest);
  const bool enough =
      found && (found->known != JointScore::Known::AtLeast || (hopeless && hopeless(found->evaluation)));
  if (!enough) {
    found = score(plan, hopeless);
    scores_->keep(digest, *found);
  }
  return found->known == JointScore::Known::Exactly ? std::optional(found->evaluation) : std::nullopt;
}

JointScore JointEvaluator::score(const JointPlan& plan, const Hopeless& hopeless) {
  Model& found = model(plan.microbatches);
  if (!found.graph) return {};
  const Strategy made = strategy(plan);
  PlanOptions now = options(plan);
  if (illegal(*found.graph, made, now, topology())) return {};
  Evaluator& evaluator = *found.evaluator;
  evaluator.set_pipeline(std::move(now.pipeline), std::move(now.recompute));
  constexpr std::int64_t kMostBytes = 500'000'000;
  evaluator.forget(Bytes(kMostBytes / sharing_));
  const PlanContents& contents = evaluator.contents();
  const BoundStrategy bound = contents.bind(made);
  if (hopeless) {
    Evaluation least{bound_.of_loads(contents, bound), permanent_overflow(contents, bound)};
    if (hopeless(least)) return {JointScore::Known::AtLeast, least};
    if (plan.microbatches > 1)
      least.time = std::max(least.time, bound_.of_chains(evaluator.expand_unordered(bound)));
    if (hopeless(least)) return {JointScore::Known::AtLeast, least};
  }
  return {JointScore::Known::Exactly, evaluator.score(bound)};
}

}  // namespace pipesim
