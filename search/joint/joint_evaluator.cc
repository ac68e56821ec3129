#include "search/joint/joint_evaluator.h"

#include <fmt/format.h>

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

const OperatorGraph* JointEvaluator::graph(std::int32_t microbatches, std::int64_t parts) {
  const auto [found, is_new] = graphs_.try_emplace({microbatches, parts});
  if (is_new) found->second = model_of_(microbatches, parts);
  return found->second ? &*found->second : nullptr;
}

PlanOptions JointEvaluator::options(const JointPlan& plan) const {
  PlanOptions options = options_;
  options.microbatches = plan.microbatches;
  options.recompute = plan.recompute;
  options.state_sharding = plan.state_sharding;
  options.gathered_inputs = plan.gathered_inputs;
  options.gradient_reduction = plan.gradient_reduction;
  if (plan.has_pipeline()) options.pipeline = plan.pipeline;
  return options;
}

Evaluator& JointEvaluator::evaluator_of(const JointPlan& plan, const OperatorGraph& graph) {
  std::unique_ptr<Evaluator>& made =
      evaluators_[fmt::format("{} {} {} {} {}", plan.microbatches, plan.parts, plan.state_sharding.str(),
                              name_of(plan.gathered_inputs), name_of(plan.gradient_reduction))];
  if (made) return *made;
  PlanOptions options = this->options(plan);
  options.pipeline.reset();
  options.recompute = {};
  made = std::make_unique<Evaluator>(graph, costs_, options);
  return *made;
}

Strategy JointEvaluator::strategy(const JointPlan& plan) {
  Strategy strategy =
      staged_strategy(*graph(plan.microbatches, plan.parts), topology(), plan.pipeline, plan.meshes).strategy;
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
  const OperatorGraph* model = graph(plan.microbatches, plan.parts);
  if (model == nullptr) return {};
  const Strategy made = strategy(plan);
  PlanOptions now = options(plan);
  if (illegal(*model, made, now, topology())) return {};
  Evaluator& evaluator = evaluator_of(plan, *model);
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
