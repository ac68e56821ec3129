#pragma once

#include <nlohmann/json_fwd.hpp>
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
                              std::ostream& progress);

std::string to_text(const PlanComparison& comparison);
/// A JSON object: plans, spearman (null where it is not defined), top1_regret, same_order,
/// clear_pairs, wrong_clear_pairs.
nlohmann::ordered_json json_of(const PlanComparison& comparison);

}  // namespace pipesim
