#pragma once

#include <string>

#include "search/auto/auto.h"
#include "search/planners/planner.h"
#include "tools/cli/arguments.h"
#include "tools/commands/options/planner_options.h"
#include "tools/inputs/model_run.h"
#include "tools/searching/search_time.h"

namespace pipesim {

/// What a command line asks a planner for.
struct PlannerRun {
  const PlannerChoice& planner;
  ModelRun model;
  OperatorGraph graph;
  std::string topology_text, profile_note;
  Topology topology;
  PlanOptions options;
  PlannerSettings settings;
  AutoOptions of_auto;
  double seconds;  ///< 0: no limit
  std::string calibration, output, log;  ///< files; "": none
  Runtime runtime;
  bool json;
  [[nodiscard]] std::string algorithm() const { return std::string(planner.name); }
};

/// The planner that --algorithm names, with its model, topology and settings. UsageError where options do not
/// fit together; InputError where a file, the model or the topology is at fault.
PlannerRun planner_run_of(const Arguments& arguments);

/// `run` must outlive it.
PlanRequest request_of(const PlannerRun& run, const CostModel& costs);

/// The planner's answer. InputError when there is none in time.
PlannedPipeline propose_in_time(const PlanRequest& request, const PlannerRun& run, const SearchTime& time);

}  // namespace pipesim
