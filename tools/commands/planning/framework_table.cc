#include "tools/commands/planning/framework_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "search/stopwatch.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "tools/cli/table.h"
#include "tools/frameworks/open_run.h"

namespace pipesim {
namespace {

// Of a framework without a limit for the command.
constexpr double kSecondsOfEach = 10;

double change(Nanoseconds best, Nanoseconds time) {
  return static_cast<double>(time) / static_cast<double>(best) - 1;
}

OpenRun open_run(const PlannerRun& run, const Framework& framework) {
  const auto conditions = run.settings.recipes.conditions();
  return run_of_framework(framework, framework.versions().back(),
                          {.model = run.model.model,
                           .topology = run.topology,
                           .runtime = run.runtime,
                           .options = run.options,
                           .samples = samples_per_iteration(run.graph, run.options),
                           .threads = run.settings.threads,
                           .runtime_is_asked = run.runtime_is_asked},
                          {conditions.begin(), conditions.end()});
}

// The fastest of those that were ranked, fit, and are the framework's, too.
std::optional<RatedRecipe> best_of_ranked(const OpenRun& open, const RecipeRanking& ranked) {
  constexpr int kMostTried = 4;
  std::optional<RatedRecipe> best;
  int tried = 0;
  for (const RatedRecipe& known : ranked.rated) {
    if (!open.filter.rules().allows(known.recipe)) continue;
    if (++tried > kMostTried) break;
    RatedRecipe rated = rate_recipe(open, known.recipe);
    if (!rated.evaluation.feasible()) continue;
    if (!best || rated.evaluation.time < best->evaluation.time) best = std::move(rated);
  }
  return best;
}

FrameworkRow row_of(const PlannerRun& run, const Framework& framework, const RecipeRanking& ranked) {
  FrameworkRow row{framework, std::nullopt, ""};
  const Stopwatch time;
  try {
    const OpenRun open = open_run(run, framework);
    const RecipeRanking ranking = rank_run(open, [](const RankingProgress&) { return true; });
    if (ranking.best() != nullptr) row.best = *ranking.best();
    row.note = ranking.proven() ? row.best               ? "proven"
                                  : ranking.recipes == 0 ? "runs none of these recipes"
                                                         : "none of its recipes fits"
                                : fmt::format("best found in {}", pretty(Seconds(time.seconds())));
    if (!row.best && !ranking.proven()) {
      row.note = fmt::format("none found in {}", pretty(Seconds(time.seconds())));
      row.best = best_of_ranked(open, ranked);
      if (row.best) row.note = "best of those that were ranked";
    }
  } catch (const InputError& error) {
    row.note = error.what();
  } catch (const OutOfTime&) {
    row.note = fmt::format("none found in {}", pretty(Seconds(time.seconds())));
  }
  return row;
}

}  // namespace

bool compares_frameworks(const PlannerRun& run) {
  if (run.framework != nullptr || !run.by_recipes) return false;
  try {
    (void)decoder_sizes(run.model.model);
    (void)hosts_of(run.topology);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

std::vector<FrameworkRow> framework_rows(const PlannerRun& run, const RecipeRanking& ranked) {
  const Deadline* whole = deadline_kept();
  std::vector<FrameworkRow> rows;
  std::size_t left = frameworks().size();
  for (const Framework& framework : frameworks()) {
    const bool limited = whole != nullptr && whole->limited();
    const double seconds =
        limited ? std::max(0.0, whole->left()) / static_cast<double>(left) : kSecondsOfEach;
    const Deadline share = whole != nullptr ? whole->within(seconds) : Deadline(seconds);
    const KeepTo keep(share);
    rows.push_back(row_of(run, framework, ranked));
    --left;
  }
  return rows;
}

std::string to_text(const std::vector<FrameworkRow>& rows, Nanoseconds best) {
  constexpr double kPercent = 100;
  Table table({{"framework"},
               {"iteration", Align::Right},
               {"", Align::Right},
               {"memory", Align::Right},
               {""},
               {"recipe"}});
  for (const FrameworkRow& row : rows) {
    if (!row.best) {
      table.add({std::string(row.framework.name), "-", "", "", row.note, ""});
      continue;
    }
    const double more = kPercent * change(best, row.best->evaluation.time);
    table.add({std::string(row.framework.name), pretty(to_seconds(row.best->evaluation.time)),
               fmt::format("{}{:.1f} %", more >= 0 ? "+" : "-", std::abs(more)), pretty(row.best->peak),
               row.note, row.best->recipe.str()});
  }
  return "the best that frameworks run; --for NAME looks for one of them alone\n" + table.str(2);
}

nlohmann::ordered_json json_of(const std::vector<FrameworkRow>& rows, Nanoseconds best) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FrameworkRow& row : rows) {
    nlohmann::ordered_json json{{"framework", row.framework.name}, {"recipe", nullptr},
                                {"iteration_time_s", nullptr},     {"above_best", nullptr},
                                {"peak_memory_bytes", nullptr},    {"note", row.note}};
    if (row.best) {
      json["recipe"] = row.best->recipe.str();
      json["iteration_time_s"] = to_seconds(row.best->evaluation.time).value;
      json["above_best"] = change(best, row.best->evaluation.time);
      json["peak_memory_bytes"] = row.best->peak.value;
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace pipesim
