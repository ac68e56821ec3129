#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/evaluator.h"
#include "search/pipelines/pipelined_strategy.h"
#include "sim/base/errors.h"
#include "tools/cli/arguments.h"
#include "tools/cli/command.h"
#include "tools/cli/table.h"
#include "tools/inputs/run_settings.h"

namespace pipesim {

/// The user ended a search before it had a plan.
class Interrupted : public InputError {
 public:
  using InputError::InputError;
};

/// What a planner is asked.
struct PlannerCall {
  const Arguments& arguments;
  ModelRun run;  ///< as it is asked for; a planner may take other microbatches of the same batch
  const OperatorGraph& graph;
  const CostModel& costs;
  std::ostream& err;  ///< for progress
  /// Options that have a meaning of their own for the planner that --algorithm names have it: auto asks for
  /// what the planner alone would find.
  bool as_alone = false;
  [[nodiscard]] const Topology& topology() const { return costs.topology(); }
};

/// A number by which a planner chose, of its own cost model.
struct PlannerObjective {
  std::string key;                                      ///< "planner_objective_s"
  double value = 0;                                     ///< as the key says
  std::string text;                                     ///< "12.3 ms a batch"
  std::optional<int> activation_factor = std::nullopt;  ///< see dapple_activation_factor()
};

/// The note of an algorithm that --seconds ended before it had a plan.
inline constexpr const char* kOutOfTime = "out of time";

/// What one of several algorithms contributed.
struct Contribution {
  std::string name;
  std::optional<Evaluation> evaluation;  ///< of its plan
  double seconds = 0;                    ///< it took
  std::string note;                      ///< "" or why it has no plan, or what it did
  std::int64_t devices_used = 0;         ///< by its plan
};

/// What a planner says.
struct PlannedPipeline {
  ModelRun run;
  OperatorGraph graph;  ///< the model of `run`
  PlanOptions options;  ///< of the plan, with its pipeline, if it has one
  Strategy strategy;
  std::vector<StageMesh> meshes;      ///< of the stages, see StageMesh
  std::vector<std::int64_t> devices;  ///< of each stage, as planned; the plan may use fewer
  std::optional<PlannerObjective> objective;
  std::string note;                         ///< "" or a sentence
  std::vector<Contribution> contributions;  ///< where several algorithms were asked, in that order
  std::string trials;                       ///< "" or a table of what was simulated
  std::uint64_t seed = 0;                   ///< of planners that search
  std::optional<bool> proven;               ///< of those that may prove it: no plan of theirs is better
  std::optional<Evaluation> scored;         ///< of the plan, where it is known

  /// Of the model as it was asked for.
  PlannedPipeline(const PlannerCall& call, PipelinedStrategy made);
  /// Any plan.
  PlannedPipeline(ModelRun planned, OperatorGraph model, PlanOptions plan, Strategy made);
};

/// One way to plan a pipeline without searching, for `pipesim search --algorithm NAME`.
struct Planner {
  std::string_view name, summary;
  std::vector<std::string> options;      ///< that it takes, of planner_options() and of searches
  std::vector<std::string> cost_models;  ///< that --cost-model may say, the default first; empty: none
  /// InputError when there is no plan, Interrupted when there is none yet, OutOfTime when the thread's
  /// deadline (sim/base/deadline.h) passed before there was one.
  PlannedPipeline (*propose)(const PlannerCall& call);
  bool searches = false;  ///< takes --seconds, --proposals, --seed, --threads, --chains and checkpoints
};

/// One for each of the files of this folder; planners.cc lists them.
Planner gpipe_planner();
Planner pipedream_planner();
Planner dapple_planner();
Planner alpa_planner();
Planner auto_planner();  ///< all others, then a search

/// What a row of simulated plans says beside its time: "does not fit; 9 of 16 devices used".
std::string trial_remarks(bool fits, std::size_t used, std::size_t devices);
/// A table of the best pipelines of all that were simulated.
std::string simulated_text(const Table& table, std::size_t shown, std::size_t all);
/// Gives the pipeline the fastest of schedules_to_try() that suits it and fits, by simulation, and says what
/// was simulated. InputError when none suits.
void choose_schedule(const PlannerCall& call, PlannedPipeline& planned);

/// Stages of costs that were read from --stage-costs, for which no model is needed.
int report_stage_costs(const Arguments& arguments, Streams& streams);

std::span<const Planner> planners();
/// nullptr: none has the name.
const Planner* planner_named(std::string_view name);
/// Who plans for a search: the planner that --algorithm names, or for "exhaustive", where options ask for
/// stages or microbatches, one that tries all pipelines and is not among planners(). nullptr: no planner.
const Planner* planner_of(const Arguments& arguments);

}  // namespace pipesim
