#include "search/recipe_planner/rank_recipes.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "search/recipe_planner/likely_recipes.h"
#include "search/recipe_planner/open_recipes.h"
#include "search/recipe_planner/recipe_trials.h"
#include "search/stopwatch.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// First simulates recipes that are likely to be fast. Bounds alone decide what is left, so that what is
// proven depends on no estimate.
class RecipeRanker {
 public:
  RecipeRanker(const RankingRequest& request, const RecipeTrials::GoOn& go_on)
      : request_(request), trials_(request, go_on), bounder_(trials_.bounder()) {}

  RecipeRanking rank() {
    LikelyRecipes likely(trials_);
    const auto reopen = [&] { likely.take_left([&](const OpenRecipe& c) { open_.add(c); }); };
    bool is_late = false;
    try {
      likely.search();
      if (trials_.goes_on()) reopen();
      if (trials_.goes_on()) bound_in_time();
      if (trials_.goes_on()) decide_all();
    } catch (const OutOfTime&) {
      is_late = true;
      // What was found by then is the answer.
    }
    if (is_late && !trials_.has_few() && request_.until_few != nullptr) go_on_to_few(likely);
    reopen();
    note_left();
    RecipeRanking& ranking = trials_.ranking();
    ranking.too_slow += std::ranges::count_if(open_, [&](const OpenRecipe& c) {
      return c.known == OpenRecipe::Known::OfFew && !trials_.may_be_best(c.bound);
    });
    std::ranges::stable_sort(ranking.rated, {}, [](const RatedRecipe& r) {
      return std::tuple(r.evaluation.overflow, r.evaluation.time, r.peak);
    });
    return std::move(ranking);
  }

 private:
  [[nodiscard]] bool may_be_much_better(Nanoseconds bound) const {
    return bound < trials_.bound_of_interest();
  }

  void go_on_to_few(LikelyRecipes& likely) {
    const KeepTo keep(*request_.until_few);
    trials_.stop_at_few();
    try {
      likely.search();
    } catch (const OutOfTime&) {
      // What was found by now is the answer.
    }
  }

  // Bounds meshes. With a deadline it takes half of the time, and leaves the rest for what was bounded by
  // then.
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

  // Bounds meshes by how long devices are busy, which is cheap. Meshes of one model follow one another, of as
  // many models at a time as may be measured together.
  void bound_meshes() {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::uint32_t>> by_model;
    for (std::uint32_t m = 0; m < trials_.space().meshes().size(); ++m) {
      if (trials_.is_bounded(m)) continue;
      if (bounder_.takes_batch_of(m)) {
        by_model[bounder_.measured_model(m)].push_back(m);
      } else {
        trials_.note_impossible(m);
      }
    }
    while (!by_model.empty()) {
      if (!trials_.may_go_on()) return;
      std::vector<std::uint32_t> next;
      auto of_model = by_model.begin();
      for (std::size_t n = 0; n < kModelsAtATime && of_model != by_model.end(); ++n) {
        std::vector<std::uint32_t>& left = of_model->second;
        const std::size_t taken = std::min(left.size(), kMeshesOfAModel);
        next.insert(next.end(), left.end() - static_cast<std::ptrdiff_t>(taken), left.end());
        left.resize(left.size() - taken);
        of_model = left.empty() ? by_model.erase(of_model) : std::next(of_model);
      }
      bounder_.measure_busy(next);
      for (const std::uint32_t number : next) {
        open_meshes_.add({bounder_.least_busy(number), number, false});
        trials_.note_bounded(number);
      }
    }
  }

  // The least bound first, of meshes and of recipes, until none is below the best.
  void decide_all() {
    for (std::vector<RecipeTrial> next = next_trials(); !next.empty(); next = next_trials()) {
      trials_.simulate(
          next,
          [&](const RecipeTrial& trial) {
            if (trial.verdict == RecipeScorer::Verdict::Open) open_.add(bounded_by_few(trial));
          },
          [&](const OpenRecipe& c) { open_.add(c); });
    }
  }

  // Takes as many recipes as may run at the same time, those with the least bounds. Meshes and recipes with
  // lower bounds than these get closer bounds first.
  std::vector<RecipeTrial> next_trials() {
    std::vector<RecipeTrial> next;
    const auto put_back = [&] {
      for (const RecipeTrial& trial : next) open_.add(trial.candidate);
    };
    while (next.size() < RecipeTrials::kMostAtATime) {
      const bool mesh_first =
          !open_meshes_.empty() && (open_.empty() || open_meshes_.front().bound <= open_.front().bound);
      if (mesh_first ? !may_be_much_better(open_meshes_.front().bound)
                     : open_.empty() || !may_be_much_better(open_.front().bound))
        break;
      try {
        if (!trials_.may_go_on()) break;
        if (mesh_first) {
          decide_mesh();
        } else if (open_.front().known < OpenRecipe::Known::OfTraffic) {
          bound_first_closer();
        } else {
          add_first(next);
        }
      } catch (const OutOfTime&) {
        put_back();
        throw;
      }
    }
    if (trials_.goes_on()) return next;
    put_back();
    return {};
  }

  void add_first(std::vector<RecipeTrial>& to) {
    const OpenRecipe first = open_.take_first();
    try {
      if (std::optional<RecipeTrial> trial = trials_.trial_of(first)) to.push_back(*std::move(trial));
    } catch (const OutOfTime&) {
      open_.add(first);
      throw;
    }
  }

  // Measures the meshes with the least bounds, or bounds the recipes of the first one by one. Until then they
  // stay among the open ones.
  void decide_mesh() {
    if (!open_meshes_.front().measured) return measure_meshes();
    trials_.bound_recipes(open_meshes_.take_first().number, [&](const OpenRecipe& c) { open_.add(c); });
  }

  void measure_meshes() {
    std::vector<OpenMesh> taken;
    std::vector<std::uint32_t> numbers;
    const Nanoseconds least = open_.empty() ? std::numeric_limits<Nanoseconds>::max() : open_.front().bound;
    while (taken.size() < kMeshesAtATime && !open_meshes_.empty()) {
      const OpenMesh& next = open_meshes_.front();
      if (next.measured || (!taken.empty() && (next.bound > least || !trials_.may_be_best(next.bound))))
        break;
      taken.push_back(next);
      numbers.push_back(next.number);
      open_meshes_.take_first();
    }
    try {
      bounder_.measure(numbers);
    } catch (const OutOfTime&) {
      for (const OpenMesh& mesh : taken) open_meshes_.add(mesh);
      throw;
    }
    for (const std::uint32_t number : numbers) open_meshes_.add({bounder_.least_time(number), number, true});
  }

  // Finds closer bounds for the recipes with the least ones, for as many at a time as are measured together.
  void bound_first_closer() {
    std::vector<OpenRecipe> taken{open_.take_first()};
    const bool by_traffic = bounder_.needs_traffic(taken.front());
    const Nanoseconds least =
        open_meshes_.empty() ? std::numeric_limits<Nanoseconds>::max() : open_meshes_.front().bound;
    const std::size_t most = by_traffic ? traffic_at_a_time() : 1;
    while (taken.size() < most && !open_.empty()) {
      const OpenRecipe& next = open_.front();
      if (next.known > OpenRecipe::Known::OfSteps || !bounder_.needs_traffic(next) || next.bound >= least ||
          !trials_.may_be_best(next.bound))
        break;
      taken.push_back(open_.take_first());
    }
    try {
      trials_.bound_closer(taken);
    } catch (const OutOfTime&) {
      for (const OpenRecipe& c : taken) open_.add(c);
      throw;
    }
    for (const OpenRecipe& c : taken) open_.add(c);
  }

  // What is measured before the next look at the bounds.
  [[nodiscard]] std::size_t traffic_at_a_time() const {
    constexpr std::size_t kDevices = 16'384;
    return std::clamp(kDevices / request_.costs.topology().num_devices(), std::size_t{1}, kMeshesAtATime);
  }

  // What might still be better.
  void note_left() {
    RecipeRanking& ranking = trials_.ranking();
    const bool all_bounded = ranking.bounded == ranking.recipes;
    Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
    ranking.left = ranking.recipes - ranking.bounded;
    const auto note = [&](Nanoseconds bound, std::int64_t recipes) {
      if (!trials_.may_be_best(bound)) return;
      ranking.left += recipes;
      least = std::min(least, bound);
    };
    for (const OpenMesh& mesh : open_meshes_) note(mesh.bound, trials_.space().size_of(mesh.number));
    for (const OpenRecipe& c : open_) note(c.bound, 1);
    const std::int64_t open = ranking.left;
    for (const OpenRecipe& c : trials_.unsimulated()) note(c.bound, 1);
    ranking.too_large_to_simulate = ranking.left - open;
    ranking.least_left = all_bounded && ranking.left > 0 ? least : 0;
  }

  static constexpr std::size_t kMeshesAtATime = 16, kMeshesOfAModel = 16, kModelsAtATime = 4;
  const RankingRequest& request_;
  RecipeTrials trials_;
  RecipeBounder& bounder_;
  OpenBounds<OpenMesh> open_meshes_;
  OpenBounds<OpenRecipe> open_;
};

}  // namespace

RecipeRanking rank_recipes(const RankingRequest& request,
                           const std::function<bool(const RankingProgress&)>& go_on) {
  try {
    return RecipeRanker(request, go_on).rank();
  } catch (const OutOfTime&) {  // before they were counted
    RecipeRanking none;
    none.left = 1;
    return none;
  }
}

std::function<bool(const RankingProgress&)> told_as_search(ProgressCallback tell) {
  return [tell = std::move(tell), time = Stopwatch()](const RankingProgress& now) {
    SearchProgress told;
    told.proposals = now.simulated;
    told.best = now.best;
    told.seconds = time.seconds();
    return tell(told);
  };
}

}  // namespace pipesim
