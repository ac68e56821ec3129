#include "search/recipe_planner/rank_recipes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

#include "search/recipes/expand_recipe.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// The model with the batch and the order of positions that recipes need.
struct SizedRecipeModel {
  OperatorGraph graph;
  RecipeModel model;
  MeshMeter meter;

  SizedRecipeModel(OperatorGraph made, const ModelParts& parts, const RankingRequest& request)
      : graph(std::move(made)), model(graph), meter(model, parts, request.costs, request.options) {}
};

// Scores recipes. Evaluators of the last few settings are kept.
class RecipeScorer {
 public:
  explicit RecipeScorer(const RankingRequest& request) : request_(request) {}

  // Nothing where a rule that looks at operators refuses the recipe.
  std::optional<RatedRecipe> score(const Recipe& recipe, const RecipeBound& bound,
                                   const SizedRecipeModel& sized, std::int64_t microbatches) {
    const RecipeStrategy made = expand_recipe(recipe, sized.model, request_.costs.topology());
    PlanOptions options = request_.options;
    options.microbatches = static_cast<std::int32_t>(microbatches);
    made.apply_to(options);
    if (illegal(sized.graph, made.strategy, options, request_.costs.topology())) return std::nullopt;
    Evaluator& evaluator = evaluator_for(sized, options);
    constexpr Bytes kMostBytes(300'000'000);
    evaluator.forget(kMostBytes);
    evaluator.set_pipeline(std::move(options.pipeline), std::move(options.recompute));
    std::vector<DeviceMemory> peaks;
    RatedRecipe rated{recipe, bound, evaluator.score(evaluator.contents().bind(made.strategy), peaks), {}};
    for (const DeviceMemory& peak : peaks) rated.peak = std::max(rated.peak, peak.peak);
    return rated;
  }

 private:
  struct Kept {
    const OperatorGraph* graph;
    PlanOptions options;
    std::unique_ptr<Evaluator> evaluator;
  };

  Evaluator& evaluator_for(const SizedRecipeModel& sized, const PlanOptions& options) {
    PlanOptions unstaged = options;
    unstaged.pipeline.reset();
    unstaged.recompute = {};
    const auto known = std::ranges::find_if(
        kept_, [&](const Kept& kept) { return kept.graph == &sized.graph && kept.options == unstaged; });
    if (known != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, known);
    } else {
      constexpr std::size_t kMostEvaluators = 4;
      if (kept_.size() == kMostEvaluators) kept_.pop_back();
      auto made = std::make_unique<Evaluator>(sized.graph, request_.costs, unstaged);
      kept_.push_front({&sized.graph, std::move(unstaged), std::move(made)});
    }
    return *kept_.front().evaluator;
  }

  const RankingRequest& request_;
  std::list<Kept> kept_;  // the last used first
};

class RecipeRanker {
 public:
  RecipeRanker(const RankingRequest& request, const std::function<bool(const RankingProgress&)>& go_on)
      : request_(request),
        go_on_(go_on),
        space_(request.model, request.costs.topology(), request.samples, request.filter),
        parts_(request.model),
        scorer_(request) {
    for (std::size_t d = 0; d < request.costs.topology().num_devices(); ++d)
      ranking_.usable = std::max(ranking_.usable, request.costs.topology().usable_memory(DeviceId(d)));
  }

  RecipeRanking rank() {
    ranking_.recipes = space_.size();
    try {
      bound_all();
      simulate_promising();
    } catch (const OutOfTime&) {
      ended_ = false;
    }
    if (!ended_) note_left();
    std::ranges::stable_sort(ranking_.rated, {}, [](const RatedRecipe& r) {
      return std::tuple(r.evaluation.overflow, r.evaluation.time, r.peak);
    });
    return std::move(ranking_);
  }

 private:
  // A recipe by its choices, and the bound of its time.
  struct Candidate {
    Nanoseconds bound = 0;
    std::uint32_t mesh = 0, pipeline = 0;
    std::uint8_t recompute = 0, sharding = 0;
    bool with_links = false;  // are in the bound
    // Of a heap whose first has the least bound.
    bool operator<(const Candidate& o) const { return order() > o.order(); }
    [[nodiscard]] std::tuple<Nanoseconds, std::uint32_t, std::uint32_t, std::uint8_t, std::uint8_t> order()
        const {
      return {bound, mesh, pipeline, recompute, sharding};
    }
  };

  [[nodiscard]] bool may_go_on() {
    stop_if_late();
    const RatedRecipe* best = best_;
    ended_ = go_on_({ranking_.bounded, ranking_.recipes, static_cast<std::int64_t>(ranking_.rated.size()),
                     best != nullptr ? best->evaluation.time : 0});
    return ended_;
  }

  SizedRecipeModel& sized(const Recipe& mesh) {
    const std::pair key(mesh.data * mesh.microbatch, mesh.context);
    std::unique_ptr<SizedRecipeModel>& made = sized_[key];
    if (!made)
      made = std::make_unique<SizedRecipeModel>(request_.graph_of(key.first, key.second), parts_, request_);
    return *made;
  }

  const std::vector<std::int64_t>& groups_of(const Recipe& mesh) {
    std::vector<std::int64_t>& groups = groups_[mesh.pipeline];
    if (groups.empty()) groups = distinct_groups(mesh.pipeline, request_.costs.topology());
    return groups;
  }

  void bound_all() {
    const auto began = std::chrono::steady_clock::now();
    costs_.resize(space_.meshes().size());
    // Meshes of one batch and order of positions follow one another.
    std::vector<std::uint32_t> order(space_.meshes().size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t m) {
      const Recipe& mesh = space_.meshes()[m];
      return std::pair(mesh.data * mesh.microbatch, mesh.context);
    });
    for (const std::uint32_t m : order) {
      if (!may_go_on()) return;
      bound_mesh(m);
    }
    ranking_.bounding_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  void bound_mesh(std::uint32_t number) {
    const Recipe& mesh = space_.meshes()[number];
    const auto pipelines = space_.pipelines(mesh);
    const auto shardings = space_.shardings(mesh);
    const auto all =
        static_cast<std::int64_t>(pipelines.size() * space_.recomputes().size() * shardings.size());
    if (request_.takes_batch && !request_.takes_batch(mesh.data * mesh.microbatch)) {
      ranking_.not_possible += all;
      ranking_.bounded += all;
      return;
    }
    costs_[number] = sized(mesh).meter.costs(mesh, groups_of(mesh));
    const RecipeMeshCosts& costs = costs_[number];
    std::vector<PermanentBytes> permanent;
    for (const StateSharding& sharding : shardings)
      permanent.push_back(
          permanent_bytes(costs, sharding, request_.options.gradient_type, request_.options.optimizer));
    for (std::size_t r = 0; r < space_.recomputes().size(); ++r) {
      std::optional<DividedCosts> divided;
      std::size_t division = SIZE_MAX;
      for (std::size_t p = 0; p < pipelines.size(); ++p) {
        if (pipelines[p].division != division) {
          division = pipelines[p].division;
          divided.emplace(costs, parts_, space_.divisions(mesh.pipeline)[division], mesh.pipeline,
                          space_.recomputes()[r]);
        }
        const ScheduleShape& shape = shape_of(mesh, pipelines[p]);
        const Nanoseconds time = divided->time(shape, space_.microbatches(mesh));
        for (std::size_t s = 0; s < shardings.size(); ++s) {
          const Bytes memory = divided->memory(shape, permanent[s]);
          const Candidate candidate{time,
                                    number,
                                    static_cast<std::uint32_t>(p),
                                    static_cast<std::uint8_t>(r),
                                    static_cast<std::uint8_t>(s),
                                    false};
          if (!ranking_.leanest || memory < ranking_.leanest->bound.memory)
            ranking_.leanest = BoundedRecipe{recipe_of(candidate), {time, memory}};
          if (memory > ranking_.usable) {
            ++ranking_.too_large;
          } else {
            open_.push_back(candidate);
          }
        }
      }
    }
    ranking_.bounded += all;
  }

  const ScheduleShape& shape_of(const Recipe& mesh, const PipelineChoice& pipeline) {
    Recipe recipe;
    recipe.chunks = space_.divisions(mesh.pipeline)[pipeline.division].chunks;
    recipe.schedule = pipeline.schedule;
    return shapes_.of(recipe.schedule_name(), mesh.pipeline, space_.microbatches(mesh), recipe.chunks);
  }

  [[nodiscard]] Recipe recipe_of(const Candidate& c) const {
    const Recipe& mesh = space_.meshes()[c.mesh];
    return space_.recipe(mesh, space_.pipelines(mesh)[c.pipeline], space_.recomputes()[c.recompute],
                         space_.shardings(mesh)[c.sharding]);
  }

  void simulate_promising() {
    if (!ended_) return;
    std::make_heap(open_.begin(), open_.end());
    ranking_.rated.reserve(kExpectedSimulations);
    while (!open_.empty() && (best_ == nullptr || open_.front().bound < best_->evaluation.time)) {
      if (!may_go_on()) return;
      const Candidate candidate = open_.front();
      // It stays among the open ones until it is dealt with.
      Candidate with_links = candidate;
      if (!candidate.with_links) {
        with_links.with_links = true;
        with_links.bound = std::max(candidate.bound, time_of_links(candidate));
      } else {
        simulate(candidate);
      }
      std::pop_heap(open_.begin(), open_.end());
      open_.pop_back();
      if (candidate.with_links) continue;
      open_.push_back(with_links);
      std::push_heap(open_.begin(), open_.end());
    }
  }

  Nanoseconds time_of_links(const Candidate& c) {
    const Recipe& mesh = space_.meshes()[c.mesh];
    const auto [at, fresh] = traffic_.try_emplace({c.mesh, c.sharding});
    if (fresh) {
      try {
        at->second = sized(mesh).meter.traffic(mesh, space_.shardings(mesh)[c.sharding],
                                               space_.microbatches(mesh), groups_of(mesh));
      } catch (const OutOfTime&) {
        traffic_.erase(at);
        throw;
      }
    }
    const StageDivision& division =
        space_.divisions(mesh.pipeline)[space_.pipelines(mesh)[c.pipeline].division];
    return DividedCosts(costs_[c.mesh], parts_, division, mesh.pipeline, space_.recomputes()[c.recompute])
        .time(at->second, space_.microbatches(mesh));
  }

  void simulate(const Candidate& c) {
    const Recipe& mesh = space_.meshes()[c.mesh];
    const Recipe recipe = recipe_of(c);
    const StageDivision& division =
        space_.divisions(mesh.pipeline)[space_.pipelines(mesh)[c.pipeline].division];
    const DividedCosts divided(costs_[c.mesh], parts_, division, mesh.pipeline, recipe.recompute);
    const RecipeBound bound{
        c.bound, divided.memory(shape_of(mesh, space_.pipelines(mesh)[c.pipeline]),
                                permanent_bytes(costs_[c.mesh], recipe.state_sharding,
                                                request_.options.gradient_type, request_.options.optimizer))};
    std::optional<RatedRecipe> rated = scorer_.score(recipe, bound, sized(mesh), space_.microbatches(mesh));
    if (!rated) {
      ++ranking_.not_possible;
      return;
    }
    const bool better =
        rated->evaluation.feasible() && (best_ == nullptr || rated->evaluation.time < best_->evaluation.time);
    best_number_ = better ? ranking_.rated.size() : best_number_;
    ranking_.rated.push_back(*std::move(rated));
    if (best_ != nullptr || better) best_ = &ranking_.rated[best_number_];
  }

  // What might still be better when time is up.
  void note_left() {
    const bool all_bounded = ranking_.bounded == ranking_.recipes;
    ranking_.left = ranking_.recipes - ranking_.bounded;
    ranking_.least_left = 0;
    bool any = !all_bounded;
    for (const Candidate& c : open_) {
      if (best_ != nullptr && c.bound >= best_->evaluation.time) continue;
      ++ranking_.left;
      if (!any || (all_bounded && c.bound < ranking_.least_left)) ranking_.least_left = c.bound;
      any = true;
    }
  }

  static constexpr std::size_t kExpectedSimulations = 256;
  const RankingRequest& request_;
  const std::function<bool(const RankingProgress&)>& go_on_;
  RecipeSpace space_;
  ModelParts parts_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<SizedRecipeModel>> sized_;
  RecipeScorer scorer_;  // refers to these
  std::map<std::int64_t, std::vector<std::int64_t>> groups_;
  std::vector<RecipeMeshCosts> costs_;  // by mesh
  std::map<std::pair<std::uint32_t, std::uint8_t>, MeshTraffic> traffic_;
  ScheduleShapes shapes_;
  std::vector<Candidate> open_;
  RecipeRanking ranking_;
  const RatedRecipe* best_ = nullptr;
  std::size_t best_number_ = 0;
  bool ended_ = true;  // not by time or request
};

}  // namespace

const RatedRecipe* RecipeRanking::best() const {
  return rated.empty() || !rated.front().evaluation.feasible() ? nullptr : &rated.front();
}

std::vector<RatedRecipe> RecipeRanking::pareto_front() const {
  std::vector<RatedRecipe> front;
  for (const RatedRecipe& r : rated) {
    if (!r.evaluation.feasible()) break;
    if (front.empty() || r.peak < front.back().peak) front.push_back(r);
  }
  return front;
}

RecipeRanking rank_recipes(const RankingRequest& request,
                           const std::function<bool(const RankingProgress&)>& go_on) {
  return RecipeRanker(request, go_on).rank();
}

std::string with_separators(std::int64_t number) {
  std::string text = fmt::format("{}", number);
  constexpr std::ptrdiff_t kDigits = 3;
  for (std::ptrdiff_t at = std::ssize(text) - kDigits; at > 0; at -= kDigits)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

}  // namespace pipesim
