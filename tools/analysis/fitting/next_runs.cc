#include "tools/analysis/fitting/next_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "costmodel/constants/fit_constants.h"
#include "search/recipes/recipe.h"
#include "sim/base/errors.h"
#include "tools/analysis/accuracy/predict_run.h"

namespace pipesim {
namespace {

constexpr std::size_t kMostCandidates = 48;

struct Candidate {
  ExpressedRun run;
  std::string name;
};

std::string place_of(const ExpressedRun& run) {
  return fmt::format("{}|{}|{}|{}|{}", run.model, run.topology, run.recipe, run.batch, run.runtime);
}

// Nothing where rows say what can't be run.
std::optional<Recipe> recipe_in(const std::string& text) {
  try {
    return parse_recipe(text);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Double and half of a degree, where the devices allow it; of tp and pp, dp takes up what is left.
std::vector<Recipe> neighbours_of(const Recipe& recipe) {
  std::vector<Recipe> found;
  const auto add = [&](std::int64_t Recipe::*degree, bool divides_devices) {
    Recipe more = recipe, less = recipe;
    more.*degree *= 2;
    if (divides_devices && recipe.data > 0) more.data = recipe.data / 2, less.data = recipe.data * 2;
    if (!divides_devices || recipe.data == 0 || recipe.data % 2 == 0) found.push_back(more);
    less.*degree /= 2;
    if (recipe.*degree % 2 == 0) found.push_back(less);
  };
  if (recipe.microbatch > 0) add(&Recipe::microbatch, false);
  add(&Recipe::tensor, true);
  if (recipe.layers.empty() && recipe.chunks == 1) add(&Recipe::pipeline, true);
  return found;
}

std::vector<Candidate> candidates_of(const std::vector<MeasuredRun>& table) {
  std::vector<Candidate> candidates;
  for (const MeasuredRun& run : table) {
    if (run.run && run.measured_time.value == 0 && run.fitted.value_or(true))
      candidates.push_back({*run.run, run.name});
  }
  std::set<std::string> known;
  for (const MeasuredRun& run : table) {
    if (run.run) known.insert(place_of(*run.run));
  }
  if (candidates.empty()) {
    for (const MeasuredRun& run : table) {
      const std::optional<Recipe> measured = run.run ? recipe_in(run.run->recipe) : std::nullopt;
      if (!measured) continue;
      for (const Recipe& recipe : neighbours_of(*measured)) {
        ExpressedRun other = *run.run;
        other.recipe = recipe.str();
        if (known.insert(place_of(other)).second)
          candidates.push_back(
              {other, fmt::format("{} on {}: {}", other.model, other.topology, other.recipe)});
      }
    }
  }
  // Some from all parts of the table.
  const std::size_t step = (candidates.size() + kMostCandidates - 1) / kMostCandidates;
  std::vector<Candidate> some;
  for (std::size_t i = 0; i < candidates.size(); i += step) some.push_back(std::move(candidates[i]));
  return some;
}

std::vector<ExpressedRun> runs_of(const std::vector<Candidate>& candidates) {
  std::vector<ExpressedRun> runs;
  for (const Candidate& candidate : candidates) runs.push_back(candidate.run);
  return runs;
}

}  // namespace

std::vector<NextRun> next_runs(const std::vector<MeasuredRun>& table, const ClusterConstants& constants,
                               std::size_t count) {
  if (count == 0) return {};
  std::vector<Candidate> candidates = candidates_of(table);
  Calibration calibration;
  calibration.constants = constants;
  const std::vector<PredictedRun> first = predict_times(runs_of(candidates), &calibration);
  std::vector<Candidate> possible;
  std::vector<double> predicted;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!first[i].error.empty() || !first[i].fits) continue;
    possible.push_back(std::move(candidates[i]));
    predicted.push_back(std::log(first[i].time.value));
  }
  const std::vector<ExpressedRun> runs = runs_of(possible);
  const auto slopes = sensitivities_of(constants, predicted,
                                       [&](const ClusterConstants& moved) { return log_times(runs, moved); });
  std::vector<NextRun> next;
  for (const std::size_t i : most_informative(constants, slopes, count)) {
    const Seconds time(std::exp(predicted[i]));
    next.push_back({possible[i].run, possible[i].name, time,
                    interval_around(time, log_deviation(constants, slopes[i]))});
  }
  return next;
}

}  // namespace pipesim
