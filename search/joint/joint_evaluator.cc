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

const OperatorGraph* JointEvaluator::graph(std::int32_t microbatches, const SequenceDivision& sequence) {
  const auto [found, is_new] = graphs_.try_emplace({microbatches, sequence});
  if (is_new) found->second = model_of_(microbatches, sequence);
  return found->second ? &*found->second : nullptr;
}

PlanOptions JointEvaluator::options(const JointPlan& plan) const {
  PlanOptions options = options_;
  options.microbatches = plan.microbatches;
  options.set_policies(plan);
  if (plan.has_pipeline()) options.pipeline = plan.pipeline;
  return options;
}

Evaluator& JointEvaluator::evaluator_of(const JointPlan& plan, const OperatorGraph& graph) {
  std::string shared = fmt::format("{} {} {} {}", plan.microbatches, plan.sequence.parts,
                                   plan.sequence.token_groups, plan.shared_text());
  const auto known = std::ranges::find(evaluators_, shared, &KeptEvaluator::shared);
  if (known != evaluators_.end()) {
    std::rotate(evaluators_.begin(), known, known + 1);
  } else {
    PlanOptions options = this->options(plan);
    options.pipeline.reset();
    options.recompute = {};
    evaluators_.insert(evaluators_.begin(),
                       {std::move(shared), std::make_unique<Evaluator>(graph, costs_, options)});
  }
  limit_memory();
  return *evaluators_.front().evaluator;
}

// Those that were not used for longest go first.
void JointEvaluator::limit_memory() {
  const Bytes most(500'000'000 / sharing_);
  evaluators_.front().evaluator->forget(most);
  Bytes all;
  for (std::size_t i = 0; i < evaluators_.size(); ++i) {
    all += evaluators_[i].evaluator->bytes();
    if (i > 0 && all > most) evaluators_.resize(i);
  }
}

Strategy JointEvaluator::strategy(const JointPlan& plan) {
  Strategy strategy =
      staged_strategy(*graph(plan.microbatches, plan.sequence), topology(), plan.pipeline, plan.meshes)
          .strategy;
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
  const OperatorGraph* model = graph(plan.microbatches, plan.sequence);
  if (model == nullptr) return {};
  const Strategy made = strategy(plan);
  PlanOptions now = options(plan);
  if (illegal(*model, made, now, topology())) return {};
  Evaluator evaluator = evaluator_of(plan, *model).with(std::move(now.pipeline), std::move(now.recompute));
  const PlanContents& contents = evaluator.contents();
  const BoundStrategy bound = contents.bind(made);
  if (hopeless) {
    // Simulating more takes seconds and gigabytes: a plan in which no device stands for others, on hundreds.
    constexpr std::size_t kMostTasks = 300'000;
    const bool many = evaluator.tasks_to_simulate(bound, Extent::All) > kMostTasks;
    if (many && evaluator.tasks_to_simulate(bound, Extent::Proving) > kMostTasks) return {};
    Evaluation least{bound_.of_loads(contents, bound), permanent_overflow(contents, bound)};
    if (hopeless(least)) return {JointScore::Known::AtLeast, least};
    // The bound by chains looks at all devices, which evaluate() need not.
    if (plan.microbatches > 1 && !many) {
      const Evaluated tasks = evaluator.evaluate(bound, {.extent = Extent::None, .part = Labels::Leave});
      least.time = std::max(least.time, bound_.of_chains(tasks.part->expanded()));
    }
    if (hopeless(least)) return {JointScore::Known::AtLeast, least};
  }
  return {JointScore::Known::Exactly, evaluator.evaluate(bound)};
}

}  // namespace pipesim
