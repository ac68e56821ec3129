#include "search/recipe_planner/recipe_trials.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::size_t kExpectedSimulations = 256;

}  // namespace

OpenRecipe bounded_by_few(const RecipeTrial& trial) {
  OpenRecipe recipe = trial.candidate;
  recipe.known = OpenRecipe::Known::OfFew;
  recipe.bound = trial.rated.bound.time;
  recipe.memory = static_cast<float>(trial.rated.share);
  return recipe;
}

RecipeTrials::RecipeTrials(const RankingRequest& request, const GoOn& go_on)
    : request_(request),
      go_on_(go_on),
      space_(request.model, request.costs.topology(), request.samples, request.filter),
      threads_(std::min(static_cast<std::size_t>(request.threads), kMostAtATime)),
      bounder_(request, space_, threads_),
      is_bounded_(space_.meshes().size(), false) {
  for (std::size_t t = 0; t < threads_.count(); ++t) scorers_.emplace_back(request);
  ranking_.recipes = space_.size();
  ranking_.rated.reserve(kExpectedSimulations);
}

bool RecipeTrials::may_go_on() {
  stop_if_late();
  RankingProgress now{ranking_.bounded, ranking_.recipes, ranking_.simulated()};
  if (best_ != nullptr) {
    now.best = best_->evaluation.time;
    now.cost_of_best = cost_of_best_;
  }
  goes_on_ = go_on_(now) && !(stops_at_few_ && has_few());
  return goes_on_;
}

bool RecipeTrials::has_few() const {
  return best_ != nullptr && ranking_.simulated() >= RankingRequest::kFewSimulated;
}

double RecipeTrials::seconds_left() {
  const Deadline* whole = deadline_kept();
  return whole == nullptr ? std::numeric_limits<double>::infinity() : whole->left();
}

Nanoseconds RecipeTrials::best_time() const {
  return best_ == nullptr ? std::numeric_limits<Nanoseconds>::max() : best_->evaluation.time;
}

Nanoseconds RecipeTrials::bound_of_interest() const {
  if (best_ == nullptr) return best_time();
  return static_cast<Nanoseconds>(std::ceil(static_cast<double>(best_time()) * (1 - request_.within)));
}

double RecipeTrials::cost_of(std::uint32_t mesh) const {
  return cost_of_simulating(request_.model.graph(), space_.microbatches(space_.meshes()[mesh]));
}

void RecipeTrials::note_bounded(std::uint32_t mesh) {
  is_bounded_[mesh] = true;
  ranking_.bounded += space_.size_of(mesh);
}

void RecipeTrials::note_impossible(std::uint32_t mesh) {
  ranking_.not_possible += space_.size_of(mesh);
  note_bounded(mesh);
}

double RecipeTrials::bound_recipes(std::uint32_t mesh, const std::function<void(const OpenRecipe&)>& each) {
  double least_share = std::numeric_limits<double>::infinity();
  bounder_.bound_recipes(mesh, [&](OpenRecipe c, Bytes memory) {
    const Bytes usable = bounder_.usable_of(c);
    const double share = share_of(memory, usable);
    c.memory = static_cast<float>(share);
    least_share = std::min(least_share, share);
    if (!ranking_.leanest || memory < ranking_.leanest->bound.memory)
      ranking_.leanest = BoundedRecipe{bounder_.recipe_of(c), {c.bound, memory}, usable};
    if (memory > usable) {
      ++ranking_.too_large;
    } else {
      each(c);
    }
  });
  return least_share;
}

void RecipeTrials::bound_closer(std::span<OpenRecipe> recipes) {
  if (bounder_.needs_traffic(recipes.front())) return bounder_.bound_by_traffic(recipes);
  for (OpenRecipe& c : recipes) bounder_.bound_by_steps(c);
}

std::optional<RecipeTrial> RecipeTrials::trial_of(const OpenRecipe& c) {
  RecipeTrial made{c, {bounder_.recipe_of(c), bounder_.bound_of(c), {}, {}, {}}, nullptr, {}, false, {}};
  try {
    made.sized = bounder_.sized(c);
  } catch (const InputError&) {  // its tensors would be too large
    ++ranking_.not_possible;
    return std::nullopt;
  }
  if (c.known == OpenRecipe::Known::OfFew) made.limit = best_time();
  return made;
}

double RecipeTrials::bounded_share(const RecipeTrial& trial) const {
  return share_of(trial.rated.bound.memory, bounder_.usable_of(trial.candidate));
}

void RecipeTrials::simulate(std::vector<RecipeTrial>& all, const std::function<void(RecipeTrial&)>& concluded,
                            const std::function<void(const OpenRecipe&)>& put_back) {
  const auto end = [&](RecipeTrial& trial) {
    concluded(trial);
    conclude(trial);
  };
  try {
    run(all);
  } catch (const OutOfTime&) {
    for (RecipeTrial& trial : all) {
      if (trial.done) {
        end(trial);
      } else {
        put_back(trial.candidate);
      }
    }
    throw;
  }
  if (request_.peers != nullptr) share(all);
  for (RecipeTrial& trial : all) end(trial);
}

void RecipeTrials::run(std::vector<RecipeTrial>& all) {
  std::vector<std::size_t> numbers;
  for (std::size_t number = 0; number < all.size(); ++number) {
    if (is_own(number)) numbers.push_back(number);
  }
  threads_.run(numbers, [&](std::size_t number, std::size_t worker) {
    RecipeTrial& trial = all[number];
    const std::int64_t microbatches = space_.microbatches(space_.meshes()[trial.candidate.mesh]);
    RecipeScorer& scorer = scorers_[worker];
    const std::int64_t passes =
        passes_to_simulate(trial.sized->graph, trial.rated.recipe, microbatches, !trial.limit);
    const SimulationMemory::Room room(memory_, passes);
    const double left = seconds_left();
    trial.verdict = scorer.score(trial.rated, trial.sized, microbatches, trial.limit);
    if (trial.verdict == RecipeScorer::Verdict::Open && seconds_left() < left)
      trial.seconds =
          (left - seconds_left()) * static_cast<double>(microbatches) / static_cast<double>(scorer.few());
    memory_.learn(passes, scorer.bytes());
    // The next large one may be another thread's.
    if (threads_.count() > 1 && SimulationMemory::is_much(scorer.bytes())) scorer.forget();
    trial.done = true;
  });
}

// Processes take turns.
bool RecipeTrials::is_own(std::size_t number) const {
  return request_.peers == nullptr || number % static_cast<std::size_t>(request_.peers->count()) ==
                                          static_cast<std::size_t>(request_.peers->rank());
}

// What the others have simulated.
void RecipeTrials::share(std::vector<RecipeTrial>& all) const {
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

void RecipeTrials::conclude(RecipeTrial& trial) {
  if (trial.verdict == RecipeScorer::Verdict::TooLarge) unsimulated_.push_back(trial.candidate);
  if (trial.verdict == RecipeScorer::Verdict::NotPossible) ++ranking_.not_possible;
  if (trial.verdict == RecipeScorer::Verdict::TooSlow) ++ranking_.too_slow;
  if (trial.verdict != RecipeScorer::Verdict::Rated) return;
  const bool better = trial.rated.evaluation.feasible() && trial.rated.evaluation.time < best_time();
  if (better) cost_of_best_ = cost_of(trial.candidate.mesh);
  best_number_ = better ? ranking_.rated.size() : best_number_;
  ranking_.rated.push_back(std::move(trial.rated));
  if (best_ != nullptr || better) best_ = &ranking_.rated[best_number_];
}

}  // namespace pipesim
