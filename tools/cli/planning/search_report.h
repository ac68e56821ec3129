#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "taskgraph/plan/plan.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/prediction_interval.h"
#include "tools/analysis/plans/pipeline_report.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/analysis/searching/why_plan.h"
#include "tools/cli/planning/framework_table.h"
#include "tools/cli/planning/search_run.h"

namespace pipesim {

/// The answer to a search, whatever the algorithm: the plan, and all that is known of it. It refers to the
/// run and to what the algorithm proposed.
struct SearchAnswer {
  const SearchRun& run;
  const PlannerAnswer& planned;
  Plan plan;
  PlanReport report;
  std::optional<PipelineReport> pipeline = {};
  std::string configs = {};                        ///< see configs_text()
  std::vector<Baseline> baselines = {};            ///< of what was asked for; empty where none were scored
  std::optional<Nanoseconds> lower_bound = {};     ///< no plan is faster; for analytic durations only
  bool bound_is_late = false;                      ///< there was no time for it
  std::optional<CalibrationUse> calibration = {};  ///< with measured durations
  Reliance reliance = {};
  std::optional<PlanReason> reason = {};  ///< why it is faster than the best baseline
  std::optional<WhyPlan> why = {};        ///< of a search over splits
  std::vector<FrameworkRow> rows = {};    ///< what frameworks run
  std::vector<std::string> hints = {};    ///< where it does not fit
};

/// A JSON object with the same keys for every algorithm; `help --schema search` describes it. What
/// an algorithm does not have is null, or an empty list.
nlohmann::ordered_json json_of(const SearchAnswer& answer);
/// The report for people.
std::string to_text(const SearchAnswer& answer);

}  // namespace pipesim
