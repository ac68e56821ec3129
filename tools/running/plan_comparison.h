#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tools/analysis/accuracy/rank_agreement.h"
#include "tools/analysis/inputs/plan_set.h"
#include "tools/running/execution_report.h"
#include "tools/running/plan_run.h"

namespace pipesim {

struct ComparedPlan {
  std::string name;
  ExecutionReport report;
  std::string idle = {};  ///< see idle_devices(); of single-device "", which is no surprise
};

/// Several plans of a model, predicted and measured.
struct PlanComparison {
  std::vector<ComparedPlan> plans;
  RankAgreement agreement;
};

/// Runs all plans, at least one, in turns: a few iterations of each, then again, so that other load on the
/// host affects all alike. Errors as PlanRun.
PlanComparison run_comparison(const std::vector<NamedSubject>& plans, const RunSetting& setting,
                              std::ostream& err, ShownProgress& progress);

}  // namespace pipesim
