#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "search/auto/algorithms.h"
#include "search/recipes/recipe.h"
#include "search/search.h"
#include "tools/inputs/calibration_use.h"
#include "tools/inputs/prediction_interval.h"
#include "tools/inputs/problem.h"
#include "tools/reports/plan_report.h"
#include "tools/searching/why_plan.h"

namespace pipesim {

/// What the command line of a search over splits asks for.
struct SearchRun : Problem {
  const Algorithm& algorithm;
  std::optional<Recipe> recipe = {};  // to begin with; complete
  SearchBudget budget = {};
  std::uint64_t seed = 1;
  int threads = 1, chains = 1;
  bool seed_given = false, chains_given = false;
  bool flexflow_moves = false;
  std::string output = {}, log = {}, checkpoint = {}, resume = {};  // files; "": none
  double checkpoint_every = 0;                                      // seconds
  bool candidates = false, json = false;                            // what to print
};

/// How good the figures of the best plan are.
struct Certainty {
  std::optional<Nanoseconds> bound;   // no plan is faster; holds for analytic durations only
  bool bound_is_late = false;         // there was no time for it
  std::optional<CalibrationUse> use;  // with measured durations
  Reliance reliance;
};

/// Whether chains run, on threads.
bool runs_chains(const SearchRun& run);

/// The whole report, as JSON or for people. `configs`: see configs_text().
nlohmann::ordered_json json_of(const SearchRun& run, const PlanReport& report,
                               const std::vector<Baseline>& baselines, const SearchOutcome& outcome,
                               const Certainty& certainty, const WhyPlan& why);
std::string text_of(const SearchRun& run, const PlanReport& report, const std::vector<Baseline>& baselines,
                    const SearchOutcome& outcome, const Certainty& certainty, const std::string& configs,
                    const WhyPlan& why);

}  // namespace pipesim
