#include "search/recipe_planner/likely_recipes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <span>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr std::size_t kMeshesAtATime = 16, kMeshesATurn = 16, kMeshesAStep = 6, kMostLater = 256;

}  // namespace

LikelyRecipes::LikelyRecipes(RecipeTrials& trials)
    : trials_(trials),
      order_(trials.space(), [&trials](std::uint32_t mesh) { return trials.cost_of(mesh); }) {
  // Simulations take longer on more devices, and bounds of a mesh, which are of one copy, do not.
  constexpr std::size_t kDevices = 2'048;
  walked_at_once_ = std::max<std::size_t>(1, trials.request().costs.topology().num_devices() / kDevices);
}

// Returns the bound from which on recipes wait until bounds decide all: they can gain too little.
Nanoseconds LikelyRecipes::bound_to_gain() const {
  constexpr double kLeastGain = 0.003;
  return std::min(trials_.bound_of_interest(),
                  trials_.best() == nullptr ? std::numeric_limits<Nanoseconds>::max()
                                            : static_cast<Nanoseconds>(estimate_of_interest(1 - kLeastGain)));
}

// Returns so many times the best time, be it simulated or only expected; infinity where there is none.
double LikelyRecipes::estimate_of_interest(double times) const {
  double best = trials_.best() == nullptr ? std::numeric_limits<double>::infinity()
                                          : static_cast<double>(trials_.best_time());
  for (const Begun& begun : begun_) best = std::min(best, static_cast<double>(begun.expected));
  return times * best;
}

void LikelyRecipes::search() {
  constexpr double kShareOfBegun = 0.4;
  constexpr std::array kLikely{1.05, 1.15, 1.3};
  if (RecipeTrials::seconds_left() < std::numeric_limits<double>::infinity())
    left_for_begun_ = kShareOfBegun * RecipeTrials::seconds_left();
  walk_.emplace(trials_.space());
  std::vector<std::uint32_t> meshes = walk_->usual();
  std::size_t width = 0;
  likely_ = kLikely[width];
  while (true) {
    if (!explore(meshes)) return;
    order_.refresh(one_fits());
    std::vector<RecipeTrial> next = likely_trials();
    if (!trials_.goes_on()) return;
    meshes = next_to_fast_ones();
    add_large_ones(meshes);
    if (next.empty() && meshes.empty()) next = begun_trials();
    if (!trials_.goes_on()) return;
    if (!next.empty()) {
      simulate(next);
    } else if (meshes.empty() && ++width == kLikely.size()) {
      return;
    } else if (meshes.empty()) {
      likely_ = kLikely[width];
    }
  }
}

void LikelyRecipes::take_left(const std::function<void(const OpenRecipe&)>& each) {
  order_.take_all(each);
  for (const Begun& begun : begun_) each(begun.recipe);
  begun_.clear();
}

// Meshes that are not explored yet, next to those with the least estimates. Each number of groups in a
// pipeline has its turn, since the way from a fast mesh with few groups to a faster one with many may lead
// past slow ones.
std::vector<std::uint32_t> LikelyRecipes::next_to_fast_ones() {
  constexpr double kNearTheFast = 1.3;
  const double slowest = estimate_of_interest(kNearTheFast);
  std::vector<std::pair<double, std::uint32_t>> from(order_.meshes().begin(), order_.meshes().end());
  // Where no recipe of a mesh fits, those next to the one that lacks least are first.
  from.insert(from.end(), without_fit_.begin(), without_fit_.end());
  std::ranges::sort(from);
  std::map<std::int64_t, std::vector<std::uint32_t>> by_groups;
  std::vector<std::int64_t> turns;  // the number of groups with the fastest mesh first
  for (const auto& [estimate, mesh] : from) {
    if (estimate >= slowest) break;
    if (walked_.contains(mesh)) continue;
    std::vector<std::uint32_t>& of_turn = by_groups[trials_.space().meshes()[mesh].pipeline];
    if (of_turn.empty()) turns.push_back(trials_.space().meshes()[mesh].pipeline);
    of_turn.push_back(mesh);
  }
  std::vector<std::uint32_t> found;
  const std::size_t most = kMeshesATurn * walked_at_once_;
  for (std::size_t n = 0; !turns.empty() && found.size() < most; ++n) {
    std::erase_if(turns, [&](std::int64_t groups) { return by_groups[groups].size() <= n; });
    for (const std::int64_t groups : turns) {
      if (found.size() < most) walk_from(by_groups[groups][n], found);
    }
  }
  return found;
}

void LikelyRecipes::walk_from(std::uint32_t mesh, std::vector<std::uint32_t>& found) {
  std::size_t taken = 0, left = 0;
  for (const std::uint32_t other : walk_->near(mesh)) {
    if (trials_.is_bounded(other) || std::ranges::find(found, other) != found.end()) continue;
    if (taken < kMeshesAStep * walked_at_once_) {
      found.push_back(other);
      ++taken;
    } else {
      ++left;
    }
  }
  if (left == 0) walked_.insert(mesh);
}

// Once, when a plan is there.
void LikelyRecipes::add_large_ones(std::vector<std::uint32_t>& meshes) {
  if (!one_fits() || std::exchange(walked_large_, true)) return;
  constexpr std::int64_t kLarge = 4;
  for (const std::uint32_t large : walk_->usual(kLarge)) {
    if (std::ranges::find(meshes, large) == meshes.end()) meshes.push_back(large);
  }
}

// Bounds all recipes of meshes. False: it may not go on.
bool LikelyRecipes::explore(std::vector<std::uint32_t> meshes) {
  RecipeBounder& bounder = trials_.bounder();
  std::erase_if(meshes, [&](std::uint32_t mesh) { return trials_.is_bounded(mesh); });
  std::ranges::stable_sort(meshes, {}, [&](std::uint32_t mesh) {
    return bounder.takes_batch_of(mesh) ? bounder.measured_model(mesh)
                                        : std::pair<std::int64_t, std::int64_t>(0, 0);
  });
  for (std::size_t from = 0; from < meshes.size(); from += kMeshesAtATime) {
    if (!trials_.may_go_on()) return false;
    std::vector<std::uint32_t> together;
    for (std::size_t m = from; m < std::min(meshes.size(), from + kMeshesAtATime); ++m) {
      if (bounder.takes_batch_of(meshes[m])) {
        together.push_back(meshes[m]);
      } else {
        trials_.note_impossible(meshes[m]);
      }
    }
    bounder.measure(together);
    for (const std::uint32_t mesh : together) {
      if (!trials_.may_go_on()) return false;
      std::int64_t fit = 0;
      const double least_share = trials_.bound_recipes(mesh, [&](const OpenRecipe& c) {
        order_.add(c);
        ++fit;
      });
      trials_.note_bounded(mesh);
      if (fit == 0)
        without_fit_.emplace_back(static_cast<double>(bounder.least_time(mesh)) * least_share, mesh);
    }
  }
  return true;
}

// Those with the least estimates, when their bounds are close. Few at first: what is learned of them directs
// what follows.
std::vector<RecipeTrial> LikelyRecipes::likely_trials() {
  constexpr std::int64_t kOneByOne = 4, kTwoByTwo = 12;
  const std::int64_t before = trials_.ranking().simulated();
  const std::size_t most = before < kOneByOne ? 1 : before < kTwoByTwo ? 2 : RecipeTrials::kMostAtATime;
  std::vector<RecipeTrial> next;
  std::vector<OpenRecipe> later;  // what is learned of another tells of these
  try {
    while (next.size() < most && later.size() < kMostLater) {
      if (!trials_.may_go_on() || is_time_for_begun()) break;
      std::optional<OpenRecipe> first = order_.take_first(bound_to_gain(), estimate_of_interest(likely_));
      if (!first) break;
      if (first->known < OpenRecipe::Known::OfTraffic) {
        bound_likely(*first);
      } else if (std::ranges::any_of(
                     next, [&](const RecipeTrial& t) { return order_.alike(t.candidate, *first); })) {
        later.push_back(*first);
      } else {
        add_trial(*first, next);
      }
    }
  } catch (const OutOfTime&) {
    put_back(next);
    for (const OpenRecipe& c : later) order_.add(c);
    throw;
  }
  for (const OpenRecipe& c : later) order_.add(c);
  if (trials_.goes_on() && !is_time_for_begun()) return next;
  put_back(next);
  return begun_trials();
}

// Simulating all microbatches takes many times as long as simulating few, which nearly tell the time. So it
// waits until nothing else is likely to be faster, or for the end of the time. The first plan is the one that
// takes the least time to simulate.
std::vector<RecipeTrial> LikelyRecipes::begun_trials() {
  std::vector<RecipeTrial> next;
  const auto first = next_begun();
  if (first == begun_.end() || !trials_.goes_on() || !trials_.may_go_on()) return next;
  const OpenRecipe recipe = first->recipe;
  begun_.erase(first);
  add_trial(recipe, next);
  return next;
}

void LikelyRecipes::add_trial(const OpenRecipe& c, std::vector<RecipeTrial>& to) {
  try {
    if (std::optional<RecipeTrial> trial = trials_.trial_of(c)) to.push_back(*std::move(trial));
  } catch (const OutOfTime&) {
    order_.add(c);
    throw;
  }
}

std::vector<LikelyRecipes::Begun>::const_iterator LikelyRecipes::next_begun() const {
  if (trials_.best() == nullptr) return std::ranges::min_element(begun_, {}, &Begun::seconds);
  const auto first = std::ranges::min_element(begun_, {}, &Begun::expected);
  return first == begun_.end() || trials_.may_be_best(first->expected) ? first : begun_.end();
}

bool LikelyRecipes::is_time_for_begun() const {
  const auto first = next_begun();
  if (first == begun_.end() || trials_.request().peers != nullptr) return false;
  constexpr double kSure = 2.5;  // a first plan should be there in time
  return RecipeTrials::seconds_left() <
         std::max(left_for_begun_, trials_.best() == nullptr ? kSure * first->seconds : 0);
}

void LikelyRecipes::bound_likely(OpenRecipe c) {
  const OpenRecipe before = c;
  try {
    trials_.bound_closer(std::span(&c, 1));
  } catch (const OutOfTime&) {
    order_.add(before);
    throw;
  }
  order_.learn_closer(before, c);
  order_.add(c);
  // Traffic takes long to measure, and tells much of recipes of the same kind.
  if (c.known == OpenRecipe::Known::OfTraffic) order_.refresh(one_fits());
}

void LikelyRecipes::put_back(const std::vector<RecipeTrial>& trials) {
  for (const RecipeTrial& trial : trials) order_.add(trial.candidate);
}

void LikelyRecipes::simulate(std::vector<RecipeTrial>& trials) {
  trials_.simulate(
      trials, [&](RecipeTrial& trial) { conclude(trial); }, [&](const OpenRecipe& c) { order_.add(c); });
}

void LikelyRecipes::conclude(RecipeTrial& trial) {
  learn(trial);
  if (trial.verdict != RecipeScorer::Verdict::Open) return;
  trial.candidate = bounded_by_few(trial);
  if (trial.candidate.memory <= 1) {
    begun_.push_back({trial.candidate, trial.rated.evaluation.time, trial.seconds});
  } else {
    order_.add(trial.candidate);
  }
}

// Learns from the time of all microbatches, or from what few of them let expect.
void LikelyRecipes::learn(const RecipeTrial& trial) {
  if (trial.verdict == RecipeScorer::Verdict::TooSlow && trial.limit)
    order_.learn_time(trial.candidate, *trial.limit);
  if (trial.verdict != RecipeScorer::Verdict::Rated && trial.verdict != RecipeScorer::Verdict::Open) return;
  order_.learn_time(trial.candidate, trial.rated.evaluation.time);
  order_.learn_memory(trial.candidate, trials_.bounded_share(trial), trial.rated.share);
  if (trial.verdict == RecipeScorer::Verdict::Open)
    order_.learn_time(bounded_by_few(trial), trial.rated.evaluation.time);
}

}  // namespace pipesim
