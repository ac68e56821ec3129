#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"
#include "search/alpa/stage_costs_json.h"
#include "search/baselines/baselines.h"
#include "search/candidates.h"
#include "search/evaluator.h"
#include "search/peer_processes.h"
#include "search/pipelines/listed_stages.h"
#include "search/pipelines/pipelined_strategy.h"
#include "search/planners/pipedream.h"
#include "search/problem.h"
#include "search/recipe_planner/recipe_ranking.h"
#include "search/search_observer.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {

/// The user ended a search before it had a plan.
class Interrupted : public InputError {
 public:
  using InputError::InputError;
};

/// Costs of stages that were read from a file, for Alpa.
struct StageCostsFile {
  std::string name;
  StageCosts costs;
  bool sets_microbatches = true;  ///< nobody asked for another number
  bool divides_batch = false;     ///< the model's batch is that of an iteration, to be divided by that number
};

/// How chains search: those of mcmc, and of auto from the plans of other algorithms.
struct ChainSettings {
  std::uint64_t seed = 1;
  std::size_t chains = 8;  ///< of searches over splits
  int threads = 1;
  std::string checkpoint;                                ///< file to write; "": none
  double checkpoint_every = 3;                           ///< seconds between two
  std::string resume;                                    ///< file to go on from; "": none
  bool seed_is_asked = false, chains_are_asked = false;  ///< then the file must have the same
  bool recomputes_stages = false;  ///< was asked for, which no recipe that is ranked does
  std::optional<Recipe> recipe;    ///< a complete one to begin with, of the request's model and microbatches
  bool flexflow_moves = false;     ///< mcmc: see McmcOptions
};

/// Settings of planners. Each planner reads its own.
struct PlannerSettings {
  std::string schedule = "1f1b";       ///< that stages are planned for
  std::vector<std::string> schedules;  ///< to choose among
  bool schedule_is_asked = false;      ///< by the user: they are that one
  std::int32_t stages = 0;             ///< gpipe, dapple, exhaustive: so many; 0: the planner decides
  std::int32_t chunks = 1;             ///< gpipe: stages that share their devices
  std::vector<ListedStage> listed;     ///< dapple: these stages
  bool published_cost = false;         ///< dapple: chooses by the published score, not by simulation
  PipeDreamOptions pipedream;
  bool replicas_take_turns = false;  ///< pipedream: where the schedule lets them
  /// dapple: samples of a microbatch on each copy of the pipeline. auto asks dapple with and without them.
  std::optional<std::int64_t> copy_microbatch;
  std::int32_t layers = 16;                   ///< alpa, exhaustive: clusters of operators
  std::optional<StageCostsFile> stage_costs;  ///< alpa
  MeshAxes mesh;                              ///< intra: splits over its axes; none: any
  bool tries_pipelines = false;               ///< exhaustive: pipelines; else splits alone
  SearchBudget budget;                        ///< of those that search
  RecipeFilter recipes;                       ///< recipes: those to choose among
  /// Whether the user set conditions on recipes. Where these leave none, no other plan will do.
  bool recipes_are_asked = false;
  int threads = 1;       ///< recipes, intra: that work beside each other
  double within = 0;     ///< recipes: how much better others may be, see RankingRequest
  ChainSettings chains;  ///< mcmc, auto
};

/// A request for plans of a model on a topology.
struct PlanRequest {
  const Problem& problem;
  const CostModel& costs;  ///< of its topology
  /// with_batch: the model with another batch; InputError if it can't be chosen. The other function tells, at
  /// less cost, whether it can.
  std::function<OperatorGraph(std::int64_t batch)> with_batch;
  std::function<bool(std::int64_t batch)> takes_batch;
  PlannerSettings settings;
  /// Shows what the planner is doing, now and then; "" ends it.
  std::function<void(std::string_view)> status;
  SearchObserver* observer = nullptr;                                     ///< of planners that search
  std::function<OperatorGraph(const ModelShape& shape)> with_shape = {};  ///< the model of another shape
  /// Planners that rank recipes use it, see RankingRequest.
  const Deadline* until_few = nullptr;
  PeerProcesses* peers = nullptr;  ///< that rank the same recipes, see RankingRequest

  [[nodiscard]] const OperatorGraph& graph() const { return problem.graph; }
  [[nodiscard]] const Topology& topology() const { return costs.topology(); }
  [[nodiscard]] const PlanOptions& options() const { return problem.options; }
  [[nodiscard]] std::int32_t microbatches() const { return options().microbatches; }
  /// Samples of an iteration.
  [[nodiscard]] std::int64_t samples() const { return graph().batch() * microbatches(); }
};

/// The value of the planner's own cost model by which it chose.
struct PlannerObjective {
  std::string unit;  ///< "s", or "times" as fast as one device
  double value = 0;
  std::string text;                                     ///< "12.3 ms a batch"
  std::optional<int> activation_factor = std::nullopt;  ///< see dapple_activation_factor()
};

/// The note of an algorithm that ran out of time before it had a plan.
inline constexpr const char* kOutOfTime = "out of time";

/// The contribution of one of several algorithms.
struct Contribution {
  std::string name;
  std::optional<Evaluation> evaluation;  ///< of its plan
  double seconds = 0;                    ///< it took
  std::string note;                      ///< "" or why it has no plan, or what it did
  std::int64_t devices_used = 0;         ///< by its plan
};

/// A plan that a planner simulated before it chose.
struct PlannerTrial {
  std::string schedule;
  std::optional<Evaluation> evaluation;  ///< nothing where there was no time for it
  std::size_t devices_used = 0;
  std::int32_t stages = 0, chunks = 1;  ///< of gpipe
  std::vector<std::size_t> replicas;    ///< of dapple: devices of each stage
  std::int64_t copies = 0;              ///< of dapple
};
struct PlannerTrials {
  enum class Of : std::uint8_t { Nothing, Pipelines, ReplicatedStages, Schedules };
  Of of = Of::Nothing;              ///< what was tried; without trials nothing is said
  std::vector<PlannerTrial> tried;  ///< the best first; of schedules in their order
  std::size_t not_simulated = 0;    ///< pipelines, for lack of time
  bool some_not_simulated = false;  ///< replicated stages: there are others
};

/// A model and a plan for it.
struct PlannedModel {
  OperatorGraph graph;  ///< its batch is a microbatch
  /// The batch that the planner chose for the model; nothing: the request's.
  std::optional<std::int64_t> batch;
  SequenceDivision sequence = {};
  PlanOptions options;  ///< of the plan, with its pipeline, if it has one
  Strategy strategy;
  std::vector<StageMesh> meshes;      ///< of the stages, see StageMesh
  std::vector<std::int64_t> devices;  ///< of each stage, as planned; the plan may use fewer

  /// For the model of the request.
  PlannedModel(const PlanRequest& request, PipelinedStrategy made)
      : PlannedModel(request.graph(), request.options(), std::move(made)) {}
  /// For a model with another batch.
  PlannedModel(OperatorGraph model, PlanOptions plan, PipelinedStrategy made);
  /// Any plan.
  PlannedModel(OperatorGraph model, PlanOptions plan, Strategy made);
};

/// The answer of a planner: its plan, and what it tells of it.
struct PlannerAnswer {
  PlannedModel plan;
  std::optional<PlannerObjective> objective = {};
  std::string note = {};                         ///< "" or a sentence
  std::vector<Contribution> contributions = {};  ///< where several algorithms were asked, in that order
  PlannerTrials trials = {};
  std::uint64_t seed = 0;                 ///< of planners that search
  std::optional<bool> proven = {};        ///< of those that may prove it: no plan of theirs is better
  std::optional<Evaluation> scored = {};  ///< of the plan, where it is known
  std::string found_by = {};              ///< the algorithm, or the baseline that is the best; set by plan()
  std::vector<Baseline> baselines = {};   ///< where they were scored before the search
  double seconds = 0;                     ///< that the algorithm took; set by plan()
  std::optional<SearchRecord> record = {};      ///< of those that search by proposals
  std::optional<Nanoseconds> lower_bound = {};  ///< where it was asked for: no plan is faster
  std::optional<RecipeRanking> recipes = {};    ///< of the planner over recipes
};

/// The planner found no plan that fits, or none in its time.
class NoPlanFound : public InputError {
 public:
  using InputError::InputError;
};

/// A search over splits found none that fits, and it is not for lack of time.
class NothingFits : public InputError {
 public:
  NothingFits(const std::string& what, Baseline baseline) : InputError(what), nearest(std::move(baseline)) {}
  Baseline nearest;  ///< to fitting
};

/// Conditions leave no recipe of the model.
class NoRecipeLeft : public InputError {
 public:
  using InputError::InputError;
};

// Each function is in a file of its own, propose_NAME.cc, but those over splits, which share
// propose_splits.cc. stage_planners() and algorithms() have their names.
PlannerAnswer propose_gpipe(const PlanRequest& request);
PlannerAnswer propose_pipedream(const PlanRequest& request);
PlannerAnswer propose_dapple(const PlanRequest& request);
PlannerAnswer propose_alpa(const PlanRequest& request);
/// Tries all pipelines of few layers on few devices, or else all splits (search/exhaustive). Needs an
/// observer.
PlannerAnswer propose_exhaustively(const PlanRequest& request);
/// Searches the splits of operators, from baselines on: by Markov chains (search/mcmc), or by trying all
/// (search/exhaustive). The plan is no worse than any baseline that fits. They need an observer. Interrupted
/// or NothingFits when there is no plan; InputError when time was too short.
PlannerAnswer propose_mcmc(const PlanRequest& request);
PlannerAnswer propose_all_splits(const PlanRequest& request);
/// The baseline of this name, among all baselines.
PlannerAnswer propose_baseline(const PlanRequest& request, std::string_view name);
/// Plans without stages: chooses the splits whose compute, transfers and synchronisation add up to least,
/// within memory, by the solver of search/intra, with its proof. Alpa's intra-operator pass does so (OSDI
/// 2022, section 4). The sum counts as if nothing overlapped (search/additive); the plan's time is simulated.
PlannerAnswer propose_intra(const PlanRequest& request);
/// Proves which recipe is the best. Needs an observer and with_shape. The second form reports its progress to
/// the caller instead.
PlannerAnswer propose_recipes(const PlanRequest& request);
PlannerAnswer propose_recipes(const PlanRequest& request, const ProgressCallback& progress);
/// The plan of a complete recipe of the request's model, not simulated. InputError where a rule that looks at
/// operators refuses it.
PlannedModel plan_of_recipe(const PlanRequest& request, const Recipe& recipe);
/// Whether the model has recipes: it has attention, in layers that repeat.
bool has_recipes(const OperatorGraph& graph);

/// The fastest stages under a schedule from a file of costs. InputError when there are none.
StagePartition partition_of(const StageProblem& problem, const std::string& file,
                            const std::string& schedule);
PlannerObjective objective_of(const StagePartition& partition);

/// Gives the pipeline the fastest, by simulation, of the request's schedules that suit it and fit into
/// memory. InputError when no schedule suits.
void choose_schedule(const PlanRequest& request, PlannerAnswer& answer);

}  // namespace pipesim
