#include "search/planners/planner.h"

#include <fmt/format.h>

#include <tuple>

#include "search/planners/algorithm.h"
#include "search/stopwatch.h"
#include "sim/base/deadline.h"

namespace pipesim {

PlannedModel::PlannedModel(OperatorGraph model, PlanOptions plan, PipelinedStrategy made)
    : graph(std::move(model)),
      options(std::move(plan)),
      strategy(std::move(made.strategy)),
      meshes(std::move(made.meshes)) {
  options.pipeline = std::move(made.pipeline);
}

PlannedModel::PlannedModel(OperatorGraph model, PlanOptions plan, Strategy made)
    : graph(std::move(model)), options(std::move(plan)), strategy(std::move(made)) {}

void choose_schedule(const PlanRequest& request, PlannerAnswer& answer) {
  PlannedModel& planned = answer.plan;
  const PlannerSettings& settings = request.settings;
  std::optional<std::tuple<Bytes, Nanoseconds>> best;
  std::string chosen;
  std::optional<Evaluator> evaluator;  // of plans that are legal
  BoundStrategy bound;
  std::vector<PlannerTrial> tried;
  for (const std::string& schedule : settings.schedules) {
    if (!settings.schedule_is_asked && schedule_kind(schedule).takes_chunks) continue;  // there are none
    planned.options.pipeline->schedule = schedule;
    if (illegal(planned.graph, planned.strategy, planned.options, request.topology())) continue;
    Evaluation evaluation;
    try {
      if (!evaluator) {
        evaluator.emplace(planned.graph, request.costs, planned.options);
        bound = evaluator->contents().bind(planned.strategy);
      }
      evaluation = evaluator->with(planned.options.pipeline, planned.options.recompute).evaluate(bound);
    } catch (const OutOfTime&) {
      tried.emplace_back().schedule = schedule;
      if (!best) chosen = schedule;
      break;
    }
    tried.emplace_back().schedule = schedule;
    tried.back().evaluation = evaluation;
    const std::tuple score(evaluation.overflow, evaluation.time);
    if (best && *best <= score) continue;
    best = score;
    chosen = schedule;
  }
  if (chosen.empty()) {
    planned.options.pipeline->schedule = settings.schedules.front();
    throw InputError(illegal(planned.graph, planned.strategy, planned.options, request.topology())
                         .value_or("no schedule"));
  }
  planned.options.pipeline->schedule = chosen;
  answer.trials.of = PlannerTrials::Of::Schedules;
  answer.trials.tried = std::move(tried);
}

PlannerAnswer plan(const PlanRequest& request, const Algorithm& algorithm, const Deadline& until) {
  const KeepTo keep(until);
  const double had = until.left();
  const Stopwatch time;
  try {
    PlannerAnswer answer = algorithm.propose(request);
    answer.seconds = time.seconds();
    if (answer.found_by.empty()) answer.found_by = algorithm.name;
    return answer;
  } catch (const OutOfTime&) {
    throw NoPlanFound(
        fmt::format("{}: no plan was found in the {:.1f} s that it had of the {} s of --seconds; allow more",
                    algorithm.name, had, request.settings.budget.seconds));
  }
}

std::span<const Algorithm> stage_planners() {
  static const std::vector<Algorithm> all{
      {.name = "gpipe",
       .summary = "pipelines: stages of about equal compute time",
       .propose = propose_gpipe,
       .settings = {"stages", "chunks", "schedule"},
       .stages = Algorithm::Stages::InGroups},
      {.name = "pipedream",
       .summary = "pipelines: its dynamic program over cuts, replicas and levels of the topology",
       .propose = propose_pipedream,
       .settings = {"schedule", "cost-model", "activation-transfers", "straight", "use-fewer",
                    "memory-limit"},
       .cost_models = {"repaired", "paper"}},
      {.name = "dapple",
       .summary = "pipelines: replicated stages for the least latency of an iteration",
       .propose = propose_dapple,
       .settings = {"schedule", "cost-model", "stages"},
       .cost_models = {"simulated", "paper"},
       .stages = Algorithm::Stages::Listed,
       .copies_pipelines = true},
      {.name = "alpa",
       .summary = "pipelines: stages on submeshes by dynamic programming",
       .propose = propose_alpa,
       .settings = {"schedule", "layers", "stage-costs"}}};
  return all;
}

}  // namespace pipesim
