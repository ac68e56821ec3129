#include "search/recipe_planner/rank_recipes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>

#include "search/recipe_planner/measured_meshes.h"
#include "search/recipe_planner/recipe_scorer.h"
#include "search/worker_threads.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

class RecipeRanker {
 public:
  RecipeRanker(const RankingRequest& request, const std::function<bool(const RankingProgress&)>& go_on)
      : request_(request),
        go_on_(go_on),
        space_(request.model, request.costs.topology(), request.samples, request.filter),
        parts_(request.model),
        threads_(std::min(static_cast<std::size_t>(request.threads), kMostAtATime)),
        meshes_(request, parts_, threads_) {
    for (std::size_t t = 0; t < threads_.count(); ++t) scorers_.emplace_back(request);
    for (std::size_t d = 0; d < request.costs.topology().num_devices(); ++d)
      ranking_.usable = std::max(ranking_.usable, request.costs.topology().usable_memory(DeviceId(d)));
  }

  RecipeRanking rank() {
    ranking_.recipes = space_.size();
    try {
      bound_in_time();
      if (ended_) decide_all();
    } catch (const OutOfTime&) {
      ended_ = false;
    }
    if (!ended_ || bounded_meshes_ < space_.meshes().size()) note_left();
    ranking_.too_slow += std::ranges::count_if(open_, [&](const Candidate& c) {
      return c.known == Candidate::Known::OfFew && !may_be_best(c.bound);
    });
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
    enum class Known : std::uint8_t { OfParts, OfLinks, OfSteps, OfFew };
    Known known = Known::OfParts;  // what its bound is made of, too
    // Of heaps whose first has the least bound.
    bool operator<(const Candidate& o) const { return order() > o.order(); }
    [[nodiscard]] std::tuple<Nanoseconds, std::uint32_t, std::uint32_t, std::uint8_t, std::uint8_t> order()
        const {
      return {bound, mesh, pipeline, recompute, sharding};
    }
  };

  // Of few microbatches first, and of all only where the bound that these give is still among the least.
  struct Simulation {
    Candidate candidate;
    RatedRecipe rated;
    SizedRecipeModel* sized = nullptr;
    std::optional<Nanoseconds> limit;
    RecipeScorer::Verdict verdict = RecipeScorer::Verdict::Open;
  };

  // All recipes of a mesh, and a bound of their times: of busy devices, or of all that is measured.
  struct OpenMesh {
    Nanoseconds bound = 0;
    std::uint32_t number = 0;
    bool measured = false;
    bool operator<(const OpenMesh& o) const {
      return std::pair(bound, number) > std::pair(o.bound, o.number);
    }
  };
  // What was measured of a mesh with fewer copies.
  struct MeasuredMesh {
    Recipe mesh;
    std::int64_t times = 1;  // so many times its copies
    const RecipeMeshCosts* costs = nullptr;
  };

  [[nodiscard]] bool may_be_best(Nanoseconds bound) const {
    return best_ == nullptr || bound < best_->evaluation.time;
  }

  [[nodiscard]] bool may_go_on() {
    stop_if_late();
    ended_ = go_on_({ranking_.bounded, ranking_.recipes, ranking_.simulated(),
                     best_ != nullptr ? best_->evaluation.time : 0});
    return ended_;
  }

  // With a deadline, half of the time is left for what was bounded by then.
  void bound_in_time() {
    const Deadline* whole = deadline_kept();
    if (whole == nullptr || !whole->limited()) return bound_meshes();
    constexpr double kShare = 0.5;
    const Deadline share = whole->within(kShare * whole->left());
    const KeepTo keep(share);
    try {
      bound_meshes();
    } catch (const OutOfTime&) {
      if (whole->passed()) throw;
    }
  }

  void bound_meshes() {
    measured_of_.resize(space_.meshes().size());
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::uint32_t>> by_model;
    for (std::uint32_t m = 0; m < space_.meshes().size(); ++m) {
      const Recipe& mesh = space_.meshes()[m];
      const FewestCopies fewest = with_fewest_copies(mesh);
      measured_of_[m] = takes_batch_of(fewest.mesh) ? MeasuredMesh{fewest.mesh, fewest.times, nullptr}
                                                    : MeasuredMesh{mesh, 1, nullptr};
      const Recipe& measured = measured_of_[m].mesh;
      by_model[{measured.data * measured.microbatch, measured.context}].push_back(m);
    }
    // Meshes of one model follow one another, of as many models at a time as may be measured together.
    while (!by_model.empty()) {
      if (!may_go_on()) return;
      std::vector<std::uint32_t> next;
      auto of_model = by_model.begin();
      for (std::size_t n = 0; n < kMostAtATime && of_model != by_model.end(); ++n) {
        std::vector<std::uint32_t>& left = of_model->second;
        const std::size_t taken = std::min(left.size(), kMeshesOfAModel);
        next.insert(next.end(), left.end() - static_cast<std::ptrdiff_t>(taken), left.end());
        left.resize(left.size() - taken);
        of_model = left.empty() ? by_model.erase(of_model) : std::next(of_model);
      }
      bound_meshes(next);
    }
  }

  void bound_meshes(const std::vector<std::uint32_t>& numbers) {
    std::vector<Recipe> measured;
    for (const std::uint32_t number : numbers) {
      if (takes_batch_of(space_.meshes()[number])) measured.push_back(measured_of_[number].mesh);
    }
    meshes_.measure_busy(measured);
    for (const std::uint32_t number : numbers) {
      const Recipe& mesh = space_.meshes()[number];
      const std::int64_t all = space_.size_of(mesh);
      if (takes_batch_of(mesh)) {
        add_mesh(number, meshes_.busy(measured_of_[number].mesh), false);
      } else {
        ranking_.not_possible += all;
      }
      ranking_.bounded += all;
      ++bounded_meshes_;
    }
  }

  [[nodiscard]] bool takes_batch_of(const Recipe& mesh) const {
    return !request_.takes_batch || request_.takes_batch(mesh.data * mesh.microbatch);
  }

  void add_mesh(std::uint32_t number, const RecipeMeshCosts& costs, bool measured) {
    const Recipe& mesh = space_.meshes()[number];
    add_mesh({least_time(costs, parts_, mesh.pipeline, space_.microbatches(mesh)), number, measured});
  }
  void add_mesh(const OpenMesh& mesh) {
    open_meshes_.push_back(mesh);
    std::push_heap(open_meshes_.begin(), open_meshes_.end());
  }
  void take_mesh() {
    std::pop_heap(open_meshes_.begin(), open_meshes_.end());
    open_meshes_.pop_back();
  }

  // Bounds every recipe of a mesh.
  void bound_recipes(std::uint32_t number) {
    const Recipe& mesh = space_.meshes()[number];
    const auto pipelines = space_.pipelines(mesh);
    const auto shardings = space_.shardings(mesh);
    const RecipeMeshCosts& costs = *measured_of_[number].costs;
    std::vector<PermanentBytes> permanent;
    for (const StateSharding& sharding : shardings) permanent.push_back(permanent_of(number, sharding));
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
          if (!pipelines[p].suits(shardings[s])) continue;
          const Bytes memory = divided->memory(shape, permanent[s]);
          const Candidate candidate{time, number, static_cast<std::uint32_t>(p), static_cast<std::uint8_t>(r),
                                    static_cast<std::uint8_t>(s)};
          if (!ranking_.leanest || memory < ranking_.leanest->bound.memory)
            ranking_.leanest = BoundedRecipe{recipe_of(candidate), {time, memory}};
          if (memory > ranking_.usable) {
            ++ranking_.too_large;
          } else {
            add(candidate);
          }
        }
      }
    }
  }

  [[nodiscard]] PermanentBytes permanent_of(std::uint32_t mesh, const StateSharding& sharding) const {
    return permanent_bytes(*measured_of_[mesh].costs, measured_of_[mesh].times, sharding,
                           request_.options.gradient_type, request_.options.optimizer);
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

  // The least bound first, of meshes and of recipes, until none is below the best.
  void decide_all() {
    ranking_.rated.reserve(kExpectedSimulations);
    for (std::vector<Simulation> next = next_simulations(); !next.empty(); next = next_simulations())
      simulate(next);
  }

  // As many as may run at the same time: those with the least bounds, when all others have closer ones.
  std::vector<Simulation> next_simulations() {
    std::vector<Simulation> next;
    while (next.size() < kMostAtATime) {
      const bool mesh_first =
          !open_meshes_.empty() && (open_.empty() || open_meshes_.front().bound <= open_.front().bound);
      if (mesh_first ? !may_be_best(open_meshes_.front().bound)
                     : open_.empty() || !may_be_best(open_.front().bound))
        break;
      try {
        if (!may_go_on()) break;
        if (mesh_first) {
          decide_mesh();
        } else if (!is_bound_closely(open_.front()) && !wants_an_answer()) {
          bound_closer();
        } else {
          next.push_back(simulation_of(open_.front()));
          take_first();
        }
      } catch (const OutOfTime&) {
        put_back(next);
        throw;
      }
    }
    if (ended_) return next;
    put_back(next);
    return {};
  }

  // Measures the meshes with the least bounds, or bounds the recipes of the first one by one. Until then they
  // stay among the open ones.
  void decide_mesh() {
    if (!open_meshes_.front().measured) return measure_meshes();
    const std::uint32_t number = open_meshes_.front().number;
    take_mesh();
    bound_recipes(number);
  }

  void measure_meshes() {
    std::vector<OpenMesh> taken;
    std::vector<Recipe> measured;
    const Nanoseconds least = open_.empty() ? std::numeric_limits<Nanoseconds>::max() : open_.front().bound;
    while (taken.size() < kMeshesAtATime && !open_meshes_.empty()) {
      const OpenMesh& next = open_meshes_.front();
      if (next.measured || (!taken.empty() && (next.bound > least || !may_be_best(next.bound)))) break;
      taken.push_back(next);
      measured.push_back(measured_of_[next.number].mesh);
      take_mesh();
    }
    try {
      meshes_.measure_costs(measured);
    } catch (const OutOfTime&) {
      for (const OpenMesh& mesh : taken) add_mesh(mesh);
      throw;
    }
    for (const OpenMesh& mesh : taken) {
      MeasuredMesh& of_mesh = measured_of_[mesh.number];
      of_mesh.costs = &meshes_.costs(of_mesh.mesh);
      add_mesh(mesh.number, *of_mesh.costs, true);
    }
  }

  // A closer bound takes its place, or those of several.
  void bound_closer() {
    if (open_.front().known == Candidate::Known::OfParts) return bound_by_links();
    Candidate next = open_.front();
    next.known = Candidate::Known::OfSteps;
    next.bound = std::max(next.bound, time_of_steps(next));
    take_first();
    add(next);
  }

  void bound_by_links() {
    std::vector<Candidate> taken;
    const Nanoseconds least =
        open_meshes_.empty() ? std::numeric_limits<Nanoseconds>::max() : open_meshes_.front().bound;
    while (taken.size() < traffic_at_a_time() && !open_.empty()) {
      const Candidate& next = open_.front();
      if (next.known != Candidate::Known::OfParts ||
          (!taken.empty() && (next.bound >= least || !may_be_best(next.bound))))
        break;
      taken.push_back(next);
      take_first();
    }
    try {
      measure_traffic(taken);
    } catch (const OutOfTime&) {
      for (const Candidate& c : taken) add(c);
      throw;
    }
    for (Candidate& c : taken) {
      c.known = Candidate::Known::OfLinks;
      c.bound = std::max(c.bound, time_of_links(c));
      add(c);
    }
  }

  // On thousands of devices closer bounds take so long that a recipe that fits is found first: it tells
  // others to be too slow, and is an answer when time is up.
  [[nodiscard]] bool wants_an_answer() const {
    constexpr std::size_t kDevicesFirst = 65'536;
    const std::size_t all = traffic_.size() * request_.costs.topology().num_devices();
    return best_ == nullptr && all >= kDevicesFirst * (1 + ranking_.rated.size() / kMostAtATime);
  }
  // What is measured before the next look at the bounds.
  [[nodiscard]] std::size_t traffic_at_a_time() const {
    constexpr std::size_t kDevices = 16'384;
    return std::clamp(kDevices / request_.costs.topology().num_devices(), std::size_t{1}, kMeshesAtATime);
  }
  [[nodiscard]] bool is_bound_closely(const Candidate& c) const {
    return c.known >= Candidate::Known::OfSteps ||
           (c.known == Candidate::Known::OfLinks && space_.meshes()[c.mesh].pipeline == 1);
  }

  void add(const Candidate& candidate) {
    open_.push_back(candidate);
    std::push_heap(open_.begin(), open_.end());
  }
  void put_back(const std::vector<Simulation>& simulations) {
    for (const Simulation& s : simulations) add(s.candidate);
  }
  void take_first() {
    std::pop_heap(open_.begin(), open_.end());
    open_.pop_back();
  }

  void measure_traffic(const std::vector<Candidate>& candidates) {
    std::map<std::pair<std::uint32_t, std::uint8_t>, std::size_t> number_of;
    std::vector<MeasuredMeshes::ShardedMesh> asked;
    for (const Candidate& c : candidates) {
      const std::pair key(c.mesh, c.sharding);
      if (traffic_.contains(key) || !number_of.try_emplace(key, asked.size()).second) continue;
      const Recipe& mesh = space_.meshes()[c.mesh];
      asked.push_back({&mesh, space_.shardings(mesh)[c.sharding], space_.microbatches(mesh)});
    }
    meshes_.measure_traffic(asked);
    for (const auto& [key, number] : number_of) traffic_.emplace(key, std::move(asked[number].traffic));
  }
  [[nodiscard]] const MeshTraffic& traffic_of(const Candidate& c) const {
    return traffic_.at({c.mesh, c.sharding});
  }

  [[nodiscard]] DividedCosts divided(const Candidate& c) const {
    const Recipe& mesh = space_.meshes()[c.mesh];
    const StageDivision& division =
        space_.divisions(mesh.pipeline)[space_.pipelines(mesh)[c.pipeline].division];
    return {*measured_of_[c.mesh].costs, parts_, division, mesh.pipeline, space_.recomputes()[c.recompute]};
  }

  Nanoseconds time_of_links(const Candidate& c) {
    const Recipe& mesh = space_.meshes()[c.mesh];
    return divided(c).time(traffic_of(c), shape_of(mesh, space_.pipelines(mesh)[c.pipeline]));
  }

  Nanoseconds time_of_steps(const Candidate& c) {
    const Recipe recipe = recipe_of(c);
    return divided(c).time_of_steps(
        sequences_.of(recipe.schedule_name(), recipe.pipeline, space_.microbatches(recipe), recipe.chunks),
        traffic_of(c), recipe.gradient_reduction());
  }

  Simulation simulation_of(const Candidate& c) {
    const Recipe& mesh = space_.meshes()[c.mesh];
    const Recipe recipe = recipe_of(c);
    const RecipeBound bound{c.bound, divided(c).memory(shape_of(mesh, space_.pipelines(mesh)[c.pipeline]),
                                                       permanent_of(c.mesh, recipe.state_sharding))};
    Simulation made{c, {recipe, bound, {}, {}}, &meshes_.sized(mesh), {}, {}};
    if (c.known == Candidate::Known::OfFew)
      made.limit = best_ != nullptr ? best_->evaluation.time : std::numeric_limits<Nanoseconds>::max();
    return made;
  }

  // At the same time. Without an answer for lack of time they stay among the open ones.
  void simulate(std::vector<Simulation>& all) {
    std::vector<std::size_t> numbers(all.size());
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    try {
      threads_.run(numbers, [&](std::size_t number, std::size_t worker) {
        Simulation& s = all[number];
        s.verdict = scorers_[worker].score(s.rated, *s.sized,
                                           space_.microbatches(space_.meshes()[s.candidate.mesh]), s.limit);
      });
    } catch (const OutOfTime&) {
      put_back(all);
      throw;
    }
    for (Simulation& s : all) conclude(s);
  }

  void conclude(Simulation& s) {
    if (s.verdict == RecipeScorer::Verdict::Open) {
      s.candidate.known = Candidate::Known::OfFew;
      s.candidate.bound = s.rated.bound.time;
      add(s.candidate);
    }
    if (s.verdict == RecipeScorer::Verdict::NotPossible) ++ranking_.not_possible;
    if (s.verdict == RecipeScorer::Verdict::TooSlow) ++ranking_.too_slow;
    if (s.verdict != RecipeScorer::Verdict::Rated) return;
    const bool better = s.rated.evaluation.feasible() &&
                        (best_ == nullptr || s.rated.evaluation.time < best_->evaluation.time);
    best_number_ = better ? ranking_.rated.size() : best_number_;
    ranking_.rated.push_back(std::move(s.rated));
    if (best_ != nullptr || better) best_ = &ranking_.rated[best_number_];
  }

  // What might still be better when time is up.
  void note_left() {
    const bool all_bounded = ranking_.bounded == ranking_.recipes;
    Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
    ranking_.left = ranking_.recipes - ranking_.bounded;
    const auto note = [&](Nanoseconds bound, std::int64_t recipes) {
      if (!may_be_best(bound)) return;
      ranking_.left += recipes;
      least = std::min(least, bound);
    };
    for (const OpenMesh& mesh : open_meshes_) note(mesh.bound, space_.size_of(space_.meshes()[mesh.number]));
    for (const Candidate& c : open_) note(c.bound, 1);
    ranking_.least_left = all_bounded && ranking_.left > 0 ? least : 0;
  }

  static constexpr std::size_t kExpectedSimulations = 256, kMostAtATime = 4, kMeshesAtATime = 16,
                               kMeshesOfAModel = 16;
  const RankingRequest& request_;
  const std::function<bool(const RankingProgress&)>& go_on_;
  RecipeSpace space_;
  ModelParts parts_;
  WorkerThreads threads_;
  MeasuredMeshes meshes_;
  std::vector<RecipeScorer> scorers_;      // by thread; refer to these
  std::vector<MeasuredMesh> measured_of_;  // by mesh
  std::size_t bounded_meshes_ = 0;
  std::vector<OpenMesh> open_meshes_;
  std::map<std::pair<std::uint32_t, std::uint8_t>, MeshTraffic> traffic_;
  ScheduleShapes shapes_;
  StepSequences sequences_;
  std::vector<Candidate> open_;
  RecipeRanking ranking_;
  const RatedRecipe* best_ = nullptr;
  std::size_t best_number_ = 0;
  bool ended_ = true;  // not by time or request
};

}  // namespace

RecipeRanking rank_recipes(const RankingRequest& request,
                           const std::function<bool(const RankingProgress&)>& go_on) {
  return RecipeRanker(request, go_on).rank();
}

}  // namespace pipesim
