#include "search/recipe_planner/recipe_estimate.h"

#include <algorithm>
#include <cmath>

#include "taskgraph/plan/state_sharding.h"

namespace pipesim {
namespace {

// A wider class counts as much as so many recipes of the narrower one.
constexpr double kWider = 0.5;

// `a` may be of any size, `b` is a part of a recipe.
constexpr std::uint64_t joined(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kWidth = 4096;
  return a * kWidth + b;
}

// Kinds of sharding and pipelines; with samples; with schedules; with the same work of a device; on one mesh;
// with recomputation.
LearnedRatios<6>::Classes classes_of_time(const EstimateClass& of) {
  const std::uint64_t kind =
      joined(of.zero, (of.pipelined ? 1 : 0) + (of.far_experts ? 2 : 0) + 4 * static_cast<int>(of.copies));
  const std::uint64_t samples = joined(kind, of.samples);
  const std::uint64_t schedule = joined(kind, of.schedule);
  const std::uint64_t mesh = joined(joined(of.mesh, of.sharding), of.schedule);
  return {kind,
          samples,
          joined(schedule, of.samples),
          joined(joined(joined(schedule, of.samples), of.work), of.recompute),
          joined(joined(of.mesh, of.sharding), of.zero),
          joined(mesh, of.recompute)};
}

LearnedRatios<5>::Classes classes_of_memory(const EstimateClass& of) {
  const bool keeps_gathered = of.zero == EstimateClass::kKeepsGathered;
  const std::uint64_t kind = joined(of.recompute, (of.pipelined ? 1 : 0) + (keeps_gathered ? 2 : 0));
  const std::uint64_t schedule = joined(joined(kind, of.schedule), of.zero);
  const std::uint64_t mesh = joined(joined(of.mesh, of.recompute), keeps_gathered ? 1 : 0);
  return {kind, schedule, joined(schedule, of.work), mesh, joined(joined(mesh, of.schedule), of.sharding)};
}

double log_ratio(double above, double below) { return std::log(std::max(above, 1.0) / std::max(below, 1.0)); }

// What is expected before any recipe of the kind was simulated. Where each microbatch gathers weights or
// scatters gradients, no bound adds that up with the steps, and little of it is hidden in a pipeline. Little
// is hidden of the exchange of tokens between nodes, either.
double prior_of_time(const EstimateClass& of, OpenRecipe::Known known) {
  constexpr double kClose = 0.02, kPipelined = 0.06, kEachMicrobatch = 0.1, kEachInPipeline = 0.5,
                   kFarExperts = 0.3;
  if (known == OpenRecipe::Known::OfFew) return 0;  // most of it was simulated
  if (known != OpenRecipe::Known::OfTraffic) return kClose;
  const bool each_microbatch = of.zero >= EstimateClass::kReducesEach;
  const bool far = of.copies == EstimateClass::Copies::BetweenNodes;
  const double prior =
      of.pipelined ? (far ? kEachInPipeline : kPipelined) : (each_microbatch ? kEachMicrobatch : kClose);
  return prior + (of.far_experts ? kFarExperts : 0);
}

}  // namespace

template <std::size_t kWidths>
void LearnedRatios<kWidths>::learn(const Classes& classes, double log_ratio) {
  for (std::size_t w = 0; w < kWidths; ++w) {
    Seen& seen = seen_[w][classes[w]];
    seen.sum += log_ratio;
    seen.count += 1;
  }
}

template <std::size_t kWidths>
double LearnedRatios<kWidths>::expected(const Classes& classes, double prior, std::size_t widest) const {
  for (std::size_t w = widest; w < kWidths; ++w) {
    const auto seen = seen_[w].find(classes[w]);
    if (seen != seen_[w].end()) prior = (seen->second.sum + kWider * prior) / (seen->second.count + kWider);
  }
  return prior;
}

template <std::size_t kWidths>
bool LearnedRatios<kWidths>::has_seen(const Classes& classes, std::size_t width) const {
  for (std::size_t w = width; w < kWidths; ++w) {
    if (seen_[w].contains(classes[w])) return true;
  }
  return false;
}

template class LearnedRatios<5>;
template class LearnedRatios<6>;

double RecipeEstimate::time_over_bound(const EstimateClass& of, OpenRecipe::Known known,
                                       bool by_samples) const {
  const LearnedRatios<6>::Classes classes = classes_of_time(of);
  const auto expected = [&](OpenRecipe::Known k) {
    const LearnedRatios<6>& times = times_[static_cast<std::size_t>(k)];
    const double prior = prior_of_time(of, k), all = times.expected(classes, prior);
    return by_samples ? std::min(all, times.expected(classes, prior, 1)) : all;
  };
  if (known == OpenRecipe::Known::OfFew) return std::exp(expected(known));
  double sum = 0;
  for (auto k = static_cast<std::size_t>(known); k <= static_cast<std::size_t>(OpenRecipe::Known::OfTraffic);
       ++k)
    sum += expected(static_cast<OpenRecipe::Known>(k));
  return std::exp(sum);
}

double RecipeEstimate::memory_over_bound(const EstimateClass& of) const {
  constexpr double kPrior = 0.035;
  return std::exp(memory_.expected(classes_of_memory(of), kPrior));
}

bool RecipeEstimate::knows_memory(const EstimateClass& of) const {
  constexpr std::size_t kOfWork = 2;
  return memory_.has_seen(classes_of_memory(of), kOfWork);
}

// What skips a bound skips its ratio as well.
void RecipeEstimate::learn_closer(const EstimateClass& of, OpenRecipe::Known before, OpenRecipe::Known after,
                                  Nanoseconds bound, Nanoseconds closer) {
  const LearnedRatios<6>::Classes classes = classes_of_time(of);
  auto k = static_cast<std::size_t>(before);
  times_[k].learn(classes, log_ratio(static_cast<double>(closer), static_cast<double>(bound)));
  while (++k < static_cast<std::size_t>(after)) times_[k].learn(classes, 0);
}

void RecipeEstimate::learn_time(const EstimateClass& of, OpenRecipe::Known known, Nanoseconds bound,
                                Nanoseconds time) {
  times_[static_cast<std::size_t>(known)].learn(
      classes_of_time(of), log_ratio(static_cast<double>(time), static_cast<double>(bound)));
}

void RecipeEstimate::learn_memory(const EstimateClass& of, double bound, double share) {
  constexpr double kLeast = 1e-6;
  memory_.learn(classes_of_memory(of), std::log(std::max(share, kLeast) / std::max(bound, kLeast)));
}

}  // namespace pipesim
