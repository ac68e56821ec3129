#include "search/recipe_planner/refine_recipe.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "search/recipe_planner/rank_recipes.h"
#include "search/recipe_planner/recipe_scorer.h"
#include "search/recipes/changed_degrees.h"
#include "search/recipes/expand_recipe.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/out_of_memory.h"

namespace pipesim {
namespace {

// Several recipes are simulated to improve one.
bool can_refine(double cost_of_simulating) { return cost_of_simulating <= 1; }

// A model of one shape.
struct ShapedModel {
  OperatorGraph graph;
  ModelShape shape;
  RecipeModel model;
  ShapedModel(OperatorGraph made, const ModelShape& of_recipe)
      : graph(std::move(made)), shape(of_recipe), model(graph) {}
};

// Layers of each group of the pipeline.
std::vector<std::int64_t> layers_of_groups(const Recipe& recipe, std::int64_t layers) {
  const std::vector<std::int64_t> of_stages = divide_layers(recipe, layers).layers;
  std::vector<std::int64_t> of_groups(static_cast<std::size_t>(recipe.pipeline), 0);
  for (std::size_t s = 0; s < of_stages.size(); ++s) {
    const std::int64_t group = device_of_stage(static_cast<std::int64_t>(s), recipe.pipeline, recipe.in_v());
    of_groups[static_cast<std::size_t>(group)] += of_stages[s];
  }
  return of_groups;
}

class RecipeRefiner {
 public:
  RecipeRefiner(const RankingRequest& request, RecipeRanking& ranking,
                const std::function<bool(const RankingProgress&)>& go_on)
      : request_(request), ranking_(ranking), go_on_(go_on), best_(ranking.rated.front()) {
    for (const RatedRecipe& rated : ranking.rated) known_.insert(rated.recipe.str());
  }

  void refine() {
    constexpr std::size_t kStarts = 3;
    std::vector<Recipe> starts;
    for (const RatedRecipe& rated : ranking_.rated) {
      if (starts.size() < kStarts && rated.evaluation.feasible()) starts.push_back(rated.recipe);
    }
    try {
      for (const Recipe& start : starts) climb(start);
    } catch (const OutOfTime&) {
    } catch (const Ended&) {
    } catch (const OutOfMemory&) {
      evaluator_.reset();
    }
    if (!improved_) return;
    ranking_.best_of_set = ranking_.rated.front();
    ranking_.rated.insert(ranking_.rated.begin(), best_);
  }

 private:
  struct Ended {};

  // From each recipe that is better than the best on to its neighbours.
  void climb(Recipe from) {
    for (bool better = true; better;) {
      better = false;
      for (const Recipe& next : neighbours(from)) {
        if (!try_all(next)) continue;
        from = best_.recipe;
        better = true;
        break;
      }
    }
  }

  [[nodiscard]] std::vector<Recipe> neighbours(const Recipe& from) {
    std::vector<Recipe> found;
    const auto change = [&](const auto& make) {
      Recipe recipe = from;
      make(recipe);
      if (recipe != from) found.push_back(std::move(recipe));
    };
    change([](Recipe& r) { r.recompute = {}; });
    for (const Recipe& moved : with_a_layer_moved(from)) found.push_back(moved);
    if (from.context > 1) {
      change([](Recipe& r) { r.ring = true, r.ulysses = 1; });
      change([](Recipe& r) { r.ring = false, r.ulysses = r.context; });
    }
    change([](Recipe& r) { r.microbatch *= 2; });
    if (from.microbatch % 2 == 0) change([](Recipe& r) { r.microbatch /= 2; });
    if (from.tensor % 2 == 0) change([](Recipe& r) { r.data *= 2, set_tensor(r, r.tensor / 2); });
    constexpr std::int64_t kPair = 2;
    if (from.pipeline % kPair == 0 && from.pipeline > kPair)
      change([](Recipe& r) { r.data *= 2, set_pipeline(r, r.pipeline / 2); });
    if (from.pipeline > 1 && from.chunks > 1 && !from.in_v()) {
      change([](Recipe& r) { r.chunks = 1, r.schedule.clear(); });
      change([](Recipe& r) { r.chunks /= 2, r.schedule.clear(); });
    }
    if (from.tensor % 2 == 0 && from.pipeline > 1)
      change([](Recipe& r) { set_tensor(r, r.tensor / 2), set_pipeline(r, r.pipeline * 2); });
    return found;
  }

  // The busiest group gives one to each that has less to do by more than a layer's work.
  [[nodiscard]] std::vector<Recipe> with_a_layer_moved(const Recipe& from) {
    if (from.pipeline == 1) return {};
    const RecipeModel& model = shaped(from).model;
    const std::vector<std::int64_t> layers = layers_of_groups(from, model.num_layers());
    const std::vector<double> work = work_of_groups(from, layers, model);
    const std::size_t busiest = static_cast<std::size_t>(std::ranges::max_element(work) - work.begin());
    std::vector<std::size_t> others(work.size());
    std::iota(others.begin(), others.end(), std::size_t{0});
    std::ranges::stable_sort(others, {}, [&](std::size_t g) { return work[g]; });
    constexpr std::size_t kMost = 4;
    std::vector<Recipe> moved;
    for (const std::size_t group : others) {
      if (moved.size() == kMost || work[busiest] - work[group] < layer_work_) break;
      if (layers[busiest] == 0) break;
      Recipe recipe = from;
      recipe.first.reset(), recipe.last.reset();
      recipe.layers = layers;
      --recipe.layers[busiest], ++recipe.layers[group];
      moved.push_back(std::move(recipe));
    }
    return moved;
  }

  // FLOPs of forward, those of embedding and head with the groups that have them.
  std::vector<double> work_of_groups(const Recipe& recipe, const std::vector<std::int64_t>& layers,
                                     const RecipeModel& model) {
    double before = 0, behind = 0, inner = 0;
    for (std::size_t i = 0; i < model.layer_of().size(); ++i) {
      const Operator& op = model.graph().operators()[i];
      const auto flops = static_cast<double>(evaluate(op.flops_forward, whole_ranges(op)));
      const std::int32_t layer = model.layer_of()[i];
      (layer == kNoLayer ? before : layer == model.num_layers() ? behind : inner) += flops;
    }
    layer_work_ = inner / static_cast<double>(model.num_layers());
    std::vector<double> work;
    for (const std::int64_t of_group : layers) work.push_back(static_cast<double>(of_group) * layer_work_);
    work.front() += before;
    (recipe.in_v() ? work.front() : work.back()) += behind;
    return work;
  }

  // Tries the recipe; where it does not fit, with as few recomputed layers as let it fit. Returns whether one
  // is the best.
  bool try_all(const Recipe& recipe) {
    const bool none_or_first = !recipe.recompute.any() || recipe.recompute.kind == Recompute::Kind::Full ||
                               recipe.recompute.kind == Recompute::Kind::First;
    if (!none_or_first) return score(recipe) == Outcome::Better;
    Recipe kept = recipe;
    kept.recompute = {};
    const Outcome outcome = score(kept);
    if (outcome != Outcome::TooLarge) return outcome == Outcome::Better;
    Recipe again = kept;
    again.recompute = Recompute::selective();
    bool better = score(again) == Outcome::Better;
    again.recompute = {Recompute::Kind::First};
    const std::vector<std::int64_t> stages = divide_layers(again, shaped(again).model.num_layers()).layers;
    if (stages.empty()) return better;
    // Times and room rise with their number.
    std::int64_t least = 0, most = *std::ranges::max_element(stages);
    while (least + 1 < most) {
      const std::int64_t middle = (least + most) / 2;
      again.recompute.count = middle;
      const Outcome now = score(again);
      if (now == Outcome::NotPossible) return better;
      better = better || now == Outcome::Better;
      (now == Outcome::TooLarge ? least : most) = middle;
    }
    return better;
  }

  enum class Outcome : std::uint8_t { Better, Slower, TooLarge, NotPossible };

  Outcome score(const Recipe& recipe) {
    stop_if_late();
    if (!known_.insert(recipe.str()).second) return remembered(recipe);
    const Outcome outcome = score_new(recipe);
    if (outcome == Outcome::TooLarge) too_large_.insert(recipe.str());
    return outcome;
  }
  // Returns the outcome of a recipe that the ranking or an earlier step has tried.
  [[nodiscard]] Outcome remembered(const Recipe& recipe) const {
    if (too_large_.contains(recipe.str())) return Outcome::TooLarge;
    const auto rated = std::ranges::find(ranking_.rated, recipe, &RatedRecipe::recipe);
    return rated != ranking_.rated.end() && !rated->evaluation.feasible() ? Outcome::TooLarge
                                                                          : Outcome::Slower;
  }

  Outcome score_new(const Recipe& recipe) {
    if (!is_allowed(recipe)) return Outcome::NotPossible;
    const ShapedModel& of = shaped(recipe);
    if (of.model.illegal(recipe)) return Outcome::NotPossible;
    const std::int64_t microbatches = request_.samples / of.shape.batch;
    if (!can_refine(cost_of_simulating(of.graph, microbatches))) return Outcome::NotPossible;
    PlanOptions options = request_.options;
    options.microbatches = static_cast<std::int32_t>(microbatches);
    RatedRecipe rated{recipe, {}, {}, {}};
    Evaluated found;
    try {
      const RecipeStrategy made = expand_recipe(recipe, of.model, request_.costs.topology());
      made.apply_to(options);
      if (illegal(of.graph, made.strategy, options, request_.costs.topology())) return Outcome::NotPossible;
      Evaluator evaluator =
          evaluator_for(options).with(std::move(options.pipeline), std::move(options.recompute));
      found = evaluator.evaluate(made.strategy, {.below = best_.evaluation.time, .peaks = true});
      ++ranking_.refined;
      if (!go_on_({ranking_.bounded, ranking_.recipes, ranking_.simulated() + ranking_.refined,
                   best_.evaluation.time}))
        throw Ended();
      if (!found.cost) return Outcome::Slower;
      rated.evaluation = *found.cost;
    } catch (const InputError&) {
      return Outcome::NotPossible;
    }
    rated.take_memory(found.peaks, request_.costs.topology());
    if (!rated.evaluation.feasible()) return Outcome::TooLarge;
    if (rated.evaluation.time >= best_.evaluation.time) return Outcome::Slower;
    rated.bound.time = rated.evaluation.time;
    rated.bound.memory = rated.peak;
    best_ = std::move(rated);
    improved_ = true;
    return Outcome::Better;
  }

  [[nodiscard]] bool is_allowed(const Recipe& recipe) const {
    const std::int64_t samples = recipe.data * recipe.microbatch;
    if (request_.samples % samples != 0) return false;
    if (request_.takes_batch && !request_.takes_batch(samples)) return false;
    const RecipeFilter& filter = request_.filter;
    if (filter.rules().allows && !filter.rules().allows(recipe)) return false;
    return std::ranges::all_of(filter.conditions(), [&](const auto& c) { return c.holds(recipe); });
  }

  const ShapedModel& shaped(const Recipe& recipe) {
    const ModelShape shape = request_.shape_of(recipe);
    if (shaped_ == nullptr || shaped_->shape != shape) {
      evaluator_.reset();
      shaped_.reset();
      shaped_ = std::make_unique<ShapedModel>(request_.graph_of(shape), shape);
    }
    return *shaped_;
  }

  Evaluator& evaluator_for(const PlanOptions& options) {
    PlanOptions unstaged = options;
    unstaged.pipeline.reset();
    unstaged.recompute = {};
    if (evaluator_ == nullptr || options_ != unstaged) {
      evaluator_.reset();
      evaluator_ = std::make_unique<Evaluator>(shaped_->graph, request_.costs, unstaged);
      options_ = std::move(unstaged);
    }
    constexpr Bytes kMostBytes(300'000'000);
    evaluator_->forget(kMostBytes);
    return *evaluator_;
  }

  const RankingRequest& request_;
  RecipeRanking& ranking_;
  const std::function<bool(const RankingProgress&)>& go_on_;
  RatedRecipe best_;
  bool improved_ = false;
  double layer_work_ = 0;
  std::set<std::string> known_, too_large_;  // recipes
  std::unique_ptr<ShapedModel> shaped_;      // the last one
  PlanOptions options_;
  std::unique_ptr<Evaluator> evaluator_;  // of these
};

}  // namespace

void refine_ranking(const RankingRequest& request, RecipeRanking& ranking,
                    const std::function<bool(const RankingProgress&)>& go_on) {
  if (ranking.best() == nullptr) return;
  RecipeRefiner(request, ranking, go_on).refine();
}

RecipeRanking rank_and_refine(const RankingRequest& request,
                              const std::function<bool(const RankingProgress&)>& go_on) {
  constexpr double kShareOfRanking = 0.85;
  const bool refines = request.filter.rules().allows && request.within == 0 && request.peers == nullptr;
  if (!refines) return rank_recipes(request, go_on);
  bool goes_on = true;
  const auto heeded = [&](const RankingProgress& now) { return goes_on = goes_on && go_on(now); };
  // Where simulating the best once takes too long to try others like it, the ranking has all of the time.
  const Deadline* whole = deadline_kept();
  const bool limited = whole != nullptr && whole->limited();
  const Deadline part = limited ? whole->within(kShareOfRanking * whole->left()) : Deadline();
  RecipeRanking ranking = rank_recipes(request, [&](const RankingProgress& now) {
    return heeded(now) && !(now.best > 0 && can_refine(now.cost_of_best) && part.passed());
  });
  if (goes_on) refine_ranking(request, ranking, heeded);
  return ranking;
}

}  // namespace pipesim
