#include "search/recipe_planner/recipe_scorer.h"

#include <algorithm>
#include <iomanip>
#include <istream>
#include <limits>
#include <ostream>
#include <utility>

#include "search/recipes/expand_recipe.h"
#include "sim/base/errors.h"
#include "sim/base/out_of_memory.h"

namespace pipesim {

SizedRecipeModel::SizedRecipeModel(OperatorGraph made, const ModelShape& of_recipe,
                                   const ModelParts& of_model, const RankingRequest& request)
    : graph(std::move(made)),
      shape(of_recipe),
      model(graph),
      meter(model, of_model, request.costs, request.options) {}

namespace {

// Passes of one device of each group of a pipeline, for which the others like it need no tasks of their own.
std::int64_t passes_of(const OperatorGraph& graph, std::int64_t microbatches) {
  constexpr std::int64_t kPasses = 3;
  return kPasses * static_cast<std::int64_t>(graph.operators().size()) * microbatches;
}

}  // namespace

// A pass and its transfers take some 400 bytes.
constexpr std::int64_t kMostPasses = 3'000'000;

double cost_of_simulating(const OperatorGraph& graph, std::int64_t microbatches) {
  return static_cast<double>(passes_of(graph, microbatches)) / static_cast<double>(kMostPasses);
}

std::int64_t passes_to_simulate(const OperatorGraph& graph, const Recipe& recipe, std::int64_t microbatches,
                                bool few) {
  constexpr std::int64_t kOfEachGroup = 4;
  return passes_of(graph, few ? std::min(microbatches, kOfEachGroup * recipe.pipeline) : microbatches);
}

SimulationMemory::Room::Room(SimulationMemory& memory, std::int64_t passes) : memory_(memory) {
  constexpr Bytes kTogether(800'000'000);
  std::unique_lock lock(memory_.mutex_);
  expected_ = Bytes(static_cast<std::int64_t>(memory_.bytes_per_pass_ * static_cast<double>(passes)));
  memory_.ended_.wait(lock,
                      [&] { return memory_.taken_ == Bytes() || memory_.taken_ + expected_ <= kTogether; });
  memory_.taken_ += expected_;
}

SimulationMemory::Room::~Room() {
  {
    const std::scoped_lock lock(memory_.mutex_);
    memory_.taken_ = Bytes(memory_.taken_.value - expected_.value);
  }
  memory_.ended_.notify_all();
}

void SimulationMemory::learn(std::int64_t passes, Bytes taken) {
  const std::scoped_lock lock(mutex_);
  bytes_per_pass_ = std::max(bytes_per_pass_, static_cast<double>(taken.value) / static_cast<double>(passes));
}

RecipeScorer::Verdict RecipeScorer::score(RatedRecipe& rated,
                                          const std::shared_ptr<const SizedRecipeModel>& sized,
                                          std::int64_t microbatches, std::optional<Nanoseconds> limit) {
  const RecipeStrategy made = expand_recipe(rated.recipe, sized->model, request_.costs.topology());
  PlanOptions options = request_.options;
  options.microbatches = static_cast<std::int32_t>(microbatches);
  made.apply_to(options);
  if (illegal(sized->graph, made.strategy, options, request_.costs.topology())) return Verdict::NotPossible;
  Evaluator& shared = evaluator_for(sized, options);
  constexpr Bytes kMostBytes(300'000'000);
  shared.forget(kMostBytes);
  Evaluator evaluator = shared.with(std::move(options.pipeline), std::move(options.recompute));
  const BoundStrategy strategy = evaluator.contents().bind(made.strategy);
  // Most plans have no more on all their devices, and whether these are alike need not be known.
  const Extent extent = limit ? Extent::Proving : Extent::Few;
  if (evaluator.tasks_to_simulate(strategy, Extent::All) > kMostPasses &&
      evaluator.tasks_to_simulate(strategy, extent) > kMostPasses)
    return Verdict::TooLarge;
  Evaluated found;
  try {
    EvaluationRequest wanted{.extent = extent, .peaks = true};
    if (limit) wanted.below = *limit;
    if (!limit) wanted.part = Labels::Leave;
    found = evaluator.evaluate(strategy, wanted);
  } catch (const OutOfMemory&) {
    evaluator_.reset();
    return Verdict::TooLarge;
  }
  rated.bound.time = std::max(rated.bound.time, found.at_least);
  if (!found.cost && !limit) estimate_from_few(rated, *found.part);
  if (!found.cost) return limit ? Verdict::TooSlow : Verdict::Open;
  rated.evaluation = *found.cost;
  rated.take_memory(found.peaks, request_.costs.topology());
  return Verdict::Rated;
}

// Backward of the loss has a steady rate before the rest of the pipeline does; the first and last quarter of
// the microbatches fill and drain it.
void RecipeScorer::estimate_from_few(RatedRecipe& rated, const SimulatedPart& part) {
  const ExpandedStrategy& few = part.expanded();
  few_ = few.microbatches();
  const Timeline& timeline = part.timeline();
  const OperatorId loss(part.graph().operators().size() - 1);
  const std::int32_t every = few.block().microbatches, blocks = few.microbatches() / every;
  std::vector<Nanoseconds> starts;
  for (std::int32_t b = 0; b < blocks; ++b)
    starts.push_back(timeline.start[few.tasks_of(loss, b * every).forward.index()]);
  std::ranges::sort(starts);
  const std::size_t first = starts.size() / 4, last = 3 * starts.size() / 4;
  const Nanoseconds each =
      last > first ? (starts[last] - starts[first]) / static_cast<Nanoseconds>(last - first) : 0;
  const std::int64_t more = part.contents().options().microbatches / every - blocks;
  rated.evaluation.time = std::max(rated.bound.time, timeline.makespan + more * each);
  rated.take_memory(peak_memory(few, timeline), request_.costs.topology());
}

Evaluator& RecipeScorer::evaluator_for(const std::shared_ptr<const SizedRecipeModel>& sized,
                                       const PlanOptions& options) {
  PlanOptions unstaged = options;
  unstaged.pipeline.reset();
  unstaged.recompute = {};
  if (evaluator_ == nullptr || sized_ != sized || options_ != unstaged) {
    evaluator_.reset();  // task graphs may be large
    evaluator_ = std::make_unique<Evaluator>(sized->graph, request_.costs, unstaged);
    sized_ = sized;
    options_ = std::move(unstaged);
  }
  return *evaluator_;
}

void write_verdict(std::ostream& out, RecipeScorer::Verdict verdict, const RatedRecipe& rated) {
  const Evaluation& e = rated.evaluation;
  out << std::setprecision(std::numeric_limits<double>::max_digits10) << static_cast<int>(verdict) << ' '
      << rated.bound.time << ' ' << e.time << ' ' << e.overflow.value << ' ' << e.proven << ' ' << e.spread
      << ' ' << rated.peak.value << ' ' << rated.share << '\n';
}

RecipeScorer::Verdict read_verdict(std::istream& in, RatedRecipe& rated) {
  Evaluation& e = rated.evaluation;
  int verdict = 0;
  if (!(in >> verdict >> rated.bound.time >> e.time >> e.overflow.value >> e.proven >> e.spread >>
        rated.peak.value >> rated.share))
    throw InternalError("another process has sent a recipe's figures in part");
  return static_cast<RecipeScorer::Verdict>(verdict);
}

}  // namespace pipesim
