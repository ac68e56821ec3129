#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "search/evaluator.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/cli/table.h"
#include "tools/planners/planner.h"

namespace pipesim {

PlannedPipeline::PlannedPipeline(const PlannerCall& call, PipelinedStrategy made)
    : run(call.run),
      graph(call.graph),
      options(plan_options_of(call.arguments, call.run)),
      strategy(std::move(made.strategy)),
      meshes(std::move(made.meshes)) {
  options.pipeline = std::move(made.pipeline);
}

PlannedPipeline::PlannedPipeline(ModelRun planned, OperatorGraph model, PlanOptions plan, Strategy made)
    : run(std::move(planned)), graph(std::move(model)), options(std::move(plan)), strategy(std::move(made)) {}

std::string trial_remarks(bool fits, std::size_t used, std::size_t devices) {
  std::string text = fits ? "" : "does not fit";
  if (used < devices) text += fmt::format("{}{} of {} devices used", text.empty() ? "" : "; ", used, devices);
  return text;
}

std::string simulated_text(const Table& table, std::size_t shown, std::size_t all) {
  return fmt::format("{} {} simulated\n", counted(static_cast<std::int64_t>(all), "pipeline"),
                     all == 1 ? "was" : "were") +
         table.str(2) + (all > shown ? fmt::format("  … and {} more\n", all - shown) : "");
}

void choose_schedule(const PlannerCall& call, PlannedPipeline& planned) {
  std::optional<std::tuple<Bytes, Nanoseconds>> best;
  std::string chosen;
  std::optional<Evaluator> evaluator;  // of plans that are legal
  BoundStrategy bound;
  Table table({{"schedule"}, {"iteration", Align::Right}, {""}});
  for (const std::string& schedule : schedules_to_try(call.arguments)) {
    if (!call.arguments.given("schedule") && schedule_kind(schedule).takes_chunks)
      continue;  // there are none
    planned.options.pipeline->schedule = schedule;
    if (illegal(planned.graph, planned.strategy, planned.options, call.topology())) continue;
    Evaluation evaluation;
    try {
      if (!evaluator) {
        evaluator.emplace(planned.graph, call.costs, planned.options);
        bound = evaluator->builder().bind(planned.strategy);
      }
      evaluator->builder().set_pipeline(planned.options.pipeline, planned.options.recompute);
      evaluation = evaluator->score(bound);
    } catch (const OutOfTime&) {
      table.add({schedule, "-", "not simulated: out of time"});
      if (!best) chosen = schedule;
      break;
    }
    table.add({schedule, pretty(to_seconds(evaluation.time)), evaluation.feasible() ? "" : "does not fit"});
    const std::tuple score(evaluation.overflow, evaluation.time);
    if (best && *best <= score) continue;
    best = score;
    chosen = schedule;
  }
  if (chosen.empty()) {
    planned.options.pipeline->schedule = schedules_to_try(call.arguments).front();
    throw InputError(
        illegal(planned.graph, planned.strategy, planned.options, call.topology()).value_or("no schedule"));
  }
  planned.options.pipeline->schedule = chosen;
  planned.trials = "schedules were simulated\n" + table.str(2);
}

std::span<const Planner> planners() {
  static const std::array all{gpipe_planner(), pipedream_planner(), dapple_planner(), alpa_planner(),
                              auto_planner()};
  return all;
}

const Planner* planner_named(std::string_view name) {
  const auto found = std::ranges::find(planners(), name, &Planner::name);
  return found == planners().end() ? nullptr : &*found;
}

}  // namespace pipesim
