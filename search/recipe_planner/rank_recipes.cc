#include "search/recipe_planner/rank_recipes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>

#include "search/recipe_planner/measured_meshes.h"
#include "search/recipe_planner/open_recipes.h"
#include "search/recipe_planner/recipe_scorer.h"
#include "search/worker_threads.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// The largest of what a function says of copies of the model, of which there is one.
template <class Copy, class Of>
auto most_of(const std::vector<Copy>& copies, Of of) {
  auto most = of(copies.front());
  for (std::size_t c = 1; c < copies.size(); ++c) most = std::max(most, of(copies[c]));
  return most;
}

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
    note_left();
    ranking_.too_slow += std::ranges::count_if(open_, [&](const OpenRecipe& c) {
      return c.known == OpenRecipe::Known::OfFew && !may_be_best(c.bound);
    });
    std::ranges::stable_sort(ranking_.rated, {}, [](const RatedRecipe& r) {
      return std::tuple(r.evaluation.overflow, r.evaluation.time, r.peak);
    });
    return std::move(ranking_);
  }

 private:
  // Of few microbatches first, and of all only where the bound that these give is still among the least.
  struct Simulation {
    OpenRecipe candidate;
    RatedRecipe rated;
    SizedRecipeModel* sized = nullptr;
    std::optional<Nanoseconds> limit;
    RecipeScorer::Verdict verdict = RecipeScorer::Verdict::Open;
  };

  // What was measured of a mesh with fewer copies.
  struct MeasuredMesh {
    Recipe mesh;
    std::int64_t times = 1;  // so many times its copies
    const MeshCosts* costs = nullptr;
    std::vector<CopyCosts> copies = {};  // of `costs`
  };

  [[nodiscard]] bool may_be_best(Nanoseconds bound) const {
    return best_ == nullptr || bound < best_->evaluation.time;
  }
  // Or so little that nobody wants to know.
  [[nodiscard]] bool may_be_much_better(Nanoseconds bound) const {
    return best_ == nullptr ||
           static_cast<double>(bound) < static_cast<double>(best_->evaluation.time) * (1 - request_.within);
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
      measured_of_[m] =
          takes_batch_of(fewest.mesh) ? MeasuredMesh{fewest.mesh, fewest.times} : MeasuredMesh{mesh, 1};
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
      const std::int64_t all = space_.size_of(number);
      if (takes_batch_of(mesh)) {
        const MeasuredMesh& of_mesh = measured_of_[number];
        add_mesh(number, meshes_.busy(of_mesh.mesh).copies(of_mesh.times), false);
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

  void add_mesh(std::uint32_t number, const std::vector<CopyCosts>& copies, bool measured) {
    const Recipe& mesh = space_.meshes()[number];
    const Nanoseconds least = most_of(copies, [&](const CopyCosts& copy) {
      return least_time(copy, parts_, mesh.pipeline, space_.microbatches(mesh));
    });
    open_meshes_.add({least, number, measured});
  }

  // Bounds every recipe of a mesh.
  void bound_recipes(std::uint32_t number) {
    const Recipe& mesh = space_.meshes()[number];
    const auto pipelines = space_.pipelines(mesh);
    const auto shardings = space_.shardings(mesh);
    std::vector<PermanentBytes> permanent;
    for (const StateSharding& sharding : shardings) permanent.push_back(permanent_of(number, sharding));
    for (std::size_t r = 0; r < space_.recomputes().size(); ++r) {
      std::vector<DividedCosts> copies;
      std::pair<std::size_t, bool> divided(SIZE_MAX, false);
      for (std::size_t p = 0; p < pipelines.size(); ++p) {
        if (std::pair(pipelines[p].division, pipelines[p].both_ways) != divided) {
          divided = {pipelines[p].division, pipelines[p].both_ways};
          copies = divided_copies(number, pipelines[p], space_.recomputes()[r]);
        }
        const ScheduleShape& shape = shape_of(mesh, pipelines[p]);
        const Nanoseconds time = most_of(
            copies, [&](const DividedCosts& copy) { return copy.time(shape, space_.microbatches(mesh)); });
        for (std::size_t s = 0; s < shardings.size(); ++s) {
          if (!space_.has(mesh, pipelines[p], space_.recomputes()[r], shardings[s])) continue;
          const Bytes memory =
              most_of(copies, [&](const DividedCosts& copy) { return copy.memory(shape, permanent[s]); });
          const OpenRecipe candidate{time, number, static_cast<std::uint32_t>(p),
                                     static_cast<std::uint8_t>(r), static_cast<std::uint8_t>(s)};
          if (!ranking_.leanest || memory < ranking_.leanest->bound.memory)
            ranking_.leanest = BoundedRecipe{recipe_of(candidate), {time, memory}};
          if (memory > ranking_.usable) {
            ++ranking_.too_large;
          } else {
            open_.add(candidate);
          }
        }
      }
    }
  }

  [[nodiscard]] PermanentBytes permanent_of(std::uint32_t mesh, const StateSharding& sharding) const {
    return permanent_bytes(measured_of_[mesh].costs->of_class.front(), measured_of_[mesh].times, sharding,
                           request_.options.gradient_type, request_.options.optimizer);
  }

  const ScheduleShape& shape_of(const Recipe& mesh, const PipelineChoice& pipeline) {
    Recipe recipe;
    recipe.chunks = space_.divisions(mesh.pipeline)[pipeline.division].chunks;
    recipe.schedule = pipeline.schedule;
    return shapes_.of(recipe.schedule_name(), mesh.pipeline, space_.microbatches(mesh), recipe.chunks);
  }

  [[nodiscard]] Recipe recipe_of(const OpenRecipe& c) const {
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
      if (mesh_first ? !may_be_much_better(open_meshes_.front().bound)
                     : open_.empty() || !may_be_much_better(open_.front().bound))
        break;
      try {
        if (!may_go_on()) break;
        if (mesh_first) {
          decide_mesh();
        } else if (const std::optional<OpenRecipe> early = wanted_answer()) {
          next.push_back(simulation_of(*early));
        } else if (open_.front().known < OpenRecipe::Known::OfTraffic) {
          bound_closer();
        } else {
          next.push_back(simulation_of(open_.take_first()));
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
    bound_recipes(open_meshes_.take_first().number);
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
      open_meshes_.take_first();
    }
    try {
      meshes_.measure_costs(measured);
    } catch (const OutOfTime&) {
      for (const OpenMesh& mesh : taken) open_meshes_.add(mesh);
      throw;
    }
    for (const OpenMesh& mesh : taken) {
      MeasuredMesh& of_mesh = measured_of_[mesh.number];
      of_mesh.costs = &meshes_.costs(of_mesh.mesh);
      of_mesh.copies = of_mesh.costs->copies(of_mesh.times);
      add_mesh(mesh.number, of_mesh.copies, true);
    }
  }

  // A closer bound takes its place, or those of several.
  void bound_closer() {
    if (needs_traffic(open_.front())) return bound_by_traffic();
    OpenRecipe next = open_.take_first();
    next.known = OpenRecipe::Known::OfSteps;
    const StepSequence& steps = steps_of(next);
    next.bound =
        std::max(next.bound,
                 most_of(divided(next), [&](const DividedCosts& copy) { return copy.time_of_steps(steps); }));
    open_.add(next);
  }
  [[nodiscard]] bool needs_traffic(const OpenRecipe& c) const {
    const OpenRecipe::Known before =
        space_.meshes()[c.mesh].pipeline == 1 ? OpenRecipe::Known::OfParts : OpenRecipe::Known::OfSteps;
    return c.known == before;
  }

  void bound_by_traffic() {
    std::vector<OpenRecipe> taken;
    const Nanoseconds least =
        open_meshes_.empty() ? std::numeric_limits<Nanoseconds>::max() : open_meshes_.front().bound;
    while (taken.size() < traffic_at_a_time() && !open_.empty()) {
      const OpenRecipe& next = open_.front();
      if (!needs_traffic(next) || (!taken.empty() && (next.bound >= least || !may_be_best(next.bound))))
        break;
      taken.push_back(open_.take_first());
    }
    try {
      measure_traffic(taken);
    } catch (const OutOfTime&) {
      for (const OpenRecipe& c : taken) open_.add(c);
      throw;
    }
    for (OpenRecipe& c : taken) {
      c.known = OpenRecipe::Known::OfTraffic;
      c.bound = std::max(c.bound, time_of_traffic(c));
      open_.add(c);
    }
  }

  // On thousands of devices closer bounds take so long that a recipe that fits is found first: it tells
  // others to be too slow, and is an answer when time is up. Among those that take little to simulate it is
  // the one with the least bound; it is taken from the open ones.
  std::optional<OpenRecipe> wanted_answer() {
    constexpr std::size_t kDevicesFirst = 65'536;
    const std::size_t all = traffic_.size() * request_.costs.topology().num_devices();
    if (best_ != nullptr || all < kDevicesFirst * (1 + ranking_.rated.size() / kMostAtATime)) return {};
    return open_.take_first([&](const OpenRecipe& c) {
      return c.known == OpenRecipe::Known::OfTraffic &&
             !space_.shardings(space_.meshes()[c.mesh])[c.sharding].each_microbatch();
    });
  }
  // What is measured before the next look at the bounds.
  [[nodiscard]] std::size_t traffic_at_a_time() const {
    constexpr std::size_t kDevices = 16'384;
    return std::clamp(kDevices / request_.costs.topology().num_devices(), std::size_t{1}, kMeshesAtATime);
  }

  void put_back(const std::vector<Simulation>& simulations) {
    for (const Simulation& s : simulations) open_.add(s.candidate);
  }

  // Mesh, sharding, and whether the schedule goes both ways.
  using TrafficKey = std::tuple<std::uint32_t, std::size_t, bool>;
  [[nodiscard]] TrafficKey traffic_key(const OpenRecipe& c) const {
    return {c.mesh, c.sharding, pipeline_of(c).both_ways};
  }
  // With that of a sharding comes that of all which divide the state in the same way.
  void measure_traffic(const std::vector<OpenRecipe>& candidates) {
    std::map<TrafficKey, std::pair<std::size_t, std::size_t>> places;
    std::vector<MeasuredMeshes::ShardedMesh> asked;
    for (const OpenRecipe& c : candidates) {
      const bool both_ways = pipeline_of(c).both_ways;
      if (traffic_.contains(traffic_key(c)) || places.contains(traffic_key(c))) continue;
      const Recipe& mesh = space_.meshes()[c.mesh];
      const MeasuredMesh& measured = measured_of_[c.mesh];
      asked.push_back({&mesh, {measured.mesh, measured.times}, {}, both_ways, space_.microbatches(mesh)});
      const std::span<const StateSharding> all = space_.shardings(mesh);
      for (std::size_t s = 0; s < all.size(); ++s) {
        if (all[s].any() != all[c.sharding].any() || all[s].group != all[c.sharding].group) continue;
        places[{c.mesh, s, both_ways}] = {asked.size() - 1, asked.back().shardings.size()};
        asked.back().shardings.push_back(all[s]);
      }
    }
    meshes_.measure_traffic(asked);
    for (const auto& [key, at] : places) traffic_.emplace(key, std::move(asked[at.first].traffic[at.second]));
  }
  [[nodiscard]] const MeshTraffic& traffic_of(const OpenRecipe& c) const {
    return traffic_.at(traffic_key(c));
  }
  [[nodiscard]] const PipelineChoice& pipeline_of(const OpenRecipe& c) const {
    return space_.pipelines(space_.meshes()[c.mesh])[c.pipeline];
  }

  // Of the copies of the model whose devices differ.
  [[nodiscard]] std::vector<DividedCosts> divided_copies(std::uint32_t number, const PipelineChoice& pipeline,
                                                         Recompute::Kind recompute) const {
    const Recipe& mesh = space_.meshes()[number];
    const StageDivision& division = space_.divisions(mesh.pipeline)[pipeline.division];
    std::vector<DividedCosts> copies;
    for (const CopyCosts& copy : measured_of_[number].copies)
      copies.emplace_back(copy, parts_, division, mesh.pipeline, recompute, pipeline.both_ways);
    return copies;
  }
  [[nodiscard]] std::vector<DividedCosts> divided(const OpenRecipe& c) const {
    return divided_copies(c.mesh, pipeline_of(c), space_.recomputes()[c.recompute]);
  }

  const StepSequence& steps_of(const OpenRecipe& c) {
    const Recipe recipe = recipe_of(c);
    return sequences_.of(recipe.schedule_name(), recipe.pipeline, space_.microbatches(recipe), recipe.chunks);
  }

  Nanoseconds time_of_traffic(const OpenRecipe& c) {
    const Recipe& mesh = space_.meshes()[c.mesh];
    const MeshTraffic& traffic = traffic_of(c);
    const std::vector<DividedCosts> copies = divided(c);
    const ScheduleShape& shape = shape_of(mesh, pipeline_of(c));
    const Nanoseconds held =
        most_of(copies, [&](const DividedCosts& copy) { return copy.time(traffic, shape); });
    if (mesh.pipeline == 1) return held;
    const StepSequence& steps = steps_of(c);
    return std::max(held, most_of(copies, [&](const DividedCosts& copy) {
                      return copy.time_of_steps(steps, traffic, recipe_of(c).gradient_reduction());
                    }));
  }

  Simulation simulation_of(const OpenRecipe& c) {
    const Recipe& mesh = space_.meshes()[c.mesh];
    const Recipe recipe = recipe_of(c);
    const ScheduleShape& shape = shape_of(mesh, pipeline_of(c));
    const PermanentBytes permanent = permanent_of(c.mesh, recipe.state_sharding);
    const RecipeBound bound{c.bound, most_of(divided(c), [&](const DividedCosts& copy) {
                              return copy.memory(shape, permanent);
                            })};
    Simulation made{c, {recipe, bound, {}, {}}, &meshes_.sized(mesh), {}, {}};
    if (c.known == OpenRecipe::Known::OfFew)
      made.limit = best_ != nullptr ? best_->evaluation.time : std::numeric_limits<Nanoseconds>::max();
    return made;
  }

  // At the same time. Without an answer for lack of time they stay among the open ones.
  void simulate(std::vector<Simulation>& all) {
    std::vector<std::size_t> numbers;
    for (std::size_t number = 0; number < all.size(); ++number) {
      if (is_own(number)) numbers.push_back(number);
    }
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
    if (request_.peers != nullptr) share(all);
    for (Simulation& s : all) conclude(s);
  }

  // Processes take turns.
  [[nodiscard]] bool is_own(std::size_t number) const {
    return request_.peers == nullptr || number % static_cast<std::size_t>(request_.peers->count()) ==
                                            static_cast<std::size_t>(request_.peers->rank());
  }
  // What the others have simulated.
  void share(std::vector<Simulation>& all) {
    std::ostringstream own;
    for (std::size_t number = 0; number < all.size(); ++number) {
      if (is_own(number)) write_verdict(own << number << ' ', all[number].verdict, all[number].rated);
    }
    for (const std::string& text : request_.peers->gather(own.str())) {
      std::istringstream lines(text);
      for (std::size_t number = 0; lines >> number;)
        all.at(number).verdict = read_verdict(lines, all.at(number).rated);
    }
  }

  void conclude(Simulation& s) {
    if (s.verdict == RecipeScorer::Verdict::Open) {
      s.candidate.known = OpenRecipe::Known::OfFew;
      s.candidate.bound = s.rated.bound.time;
      open_.add(s.candidate);
    }
    if (s.verdict == RecipeScorer::Verdict::TooLarge) unsimulated_.push_back(s.candidate);
    if (s.verdict == RecipeScorer::Verdict::NotPossible) ++ranking_.not_possible;
    if (s.verdict == RecipeScorer::Verdict::TooSlow) ++ranking_.too_slow;
    if (s.verdict != RecipeScorer::Verdict::Rated) return;
    const bool better = s.rated.evaluation.feasible() &&
                        (best_ == nullptr || s.rated.evaluation.time < best_->evaluation.time);
    best_number_ = better ? ranking_.rated.size() : best_number_;
    ranking_.rated.push_back(std::move(s.rated));
    if (best_ != nullptr || better) best_ = &ranking_.rated[best_number_];
  }

  // What might still be better.
  void note_left() {
    const bool all_bounded = ranking_.bounded == ranking_.recipes;
    Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
    ranking_.left = ranking_.recipes - ranking_.bounded;
    const auto note = [&](Nanoseconds bound, std::int64_t recipes) {
      if (!may_be_best(bound)) return;
      ranking_.left += recipes;
      least = std::min(least, bound);
    };
    for (const OpenMesh& mesh : open_meshes_) note(mesh.bound, space_.size_of(mesh.number));
    for (const OpenRecipe& c : open_) note(c.bound, 1);
    const std::int64_t open = ranking_.left;
    for (const OpenRecipe& c : unsimulated_) note(c.bound, 1);
    ranking_.too_large_to_simulate = ranking_.left - open;
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
  OpenBounds<OpenMesh> open_meshes_;
  std::map<TrafficKey, MeshTraffic> traffic_;
  ScheduleShapes shapes_;
  StepSequences sequences_;
  OpenBounds<OpenRecipe> open_;
  std::vector<OpenRecipe> unsimulated_;  // their task graphs are too large for this machine
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
