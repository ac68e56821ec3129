#include "tools/cli/planning/framework_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "search/baselines/baselines.h"
#include "search/stopwatch.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "tools/interop/framework/open_run.h"
#include "tools/interop/frameworks.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

// The policies of a runtime stand behind a colon in its name, and recipes decide them.
std::string kind_of(const std::string& runtime) { return runtime.substr(0, runtime.find(':')); }

// Each framework gets this time when the command has no limit.
constexpr double kSecondsOfEach = 10;

double change(Nanoseconds best, Nanoseconds time) {
  return static_cast<double>(time) / static_cast<double>(best) - 1;
}

OpenRun open_run(const SearchRun& run, const Framework& framework) {
  const auto conditions = run.settings.recipes.conditions();
  return run_of_framework(framework, framework.versions().back(),
                          {.model = run.model,
                           .topology = run.topology,
                           .runtime = run.runtime,
                           .options = run.options,
                           .samples = samples_per_iteration(run.graph, run.options),
                           .threads = run.settings.threads,
                           .runtime_is_asked = run.runtime_is_asked},
                          {conditions.begin(), conditions.end()});
}

// Returns the fastest of the ranked recipes that the framework runs, too, and that fits as the framework runs
// it. Only a few are tried; nothing where none of them fits or time is up.
std::optional<RatedRecipe> best_of_ranked(const OpenRun& open, const RecipeRanking& ranked) {
  constexpr int kMostTried = 4;
  int tried = 0;
  try {
    for (const RatedRecipe& known : ranked.rated) {
      if (!open.filter.rules().allows(known.recipe)) continue;
      if (++tried > kMostTried) break;
      RatedRecipe rated = rate_recipe(open, known.recipe);
      if (rated.evaluation.feasible()) return rated;
    }
  } catch (const OutOfTime&) {  // the framework's own ranking has no time either
  }
  return std::nullopt;
}

// Gives the row a plan of the ranked recipes, so that it has one before there is time for a better one.
FrameworkRow row_of_ranked(const SearchRun& run, const Framework& framework, const RecipeRanking& ranked) {
  FrameworkRow row{framework, std::nullopt, ""};
  try {
    const OpenRun open = open_run(run, framework);
    row.runtime = open.runtime.name;
    row.best = best_of_ranked(open, ranked);
    if (row.best) row.note = "best of those that were ranked";
  } catch (const InputError& error) {
    row.note = error.what();
  }
  return row;
}

// Ranks the framework's own recipes.
void improve(FrameworkRow& row, const SearchRun& run) {
  const Stopwatch time;
  try {
    const RecipeRanking ranking =
        rank_run(open_run(run, row.framework), [](const RankingProgress&) { return true; });
    const RatedRecipe* best = ranking.best();
    row.seconds = time.seconds();
    const std::string taken = pretty(Seconds(row.seconds));
    if (best != nullptr && (!row.best || best->evaluation.time <= row.best->evaluation.time)) {
      row.best = *best;
      row.note = ranking.proven() ? "proven" : fmt::format("best found in {}", taken);
    } else if (!row.best) {
      row.note = !ranking.proven()      ? fmt::format("none found in {}", taken)
                 : ranking.recipes == 0 ? "runs none of these recipes"
                                        : "none of its recipes fits";
    }
  } catch (const InputError& error) {
    row.note = error.what();
  } catch (const OutOfTime&) {
    if (!row.best) row.note = fmt::format("none found in {}", pretty(Seconds(time.seconds())));
  }
}

}  // namespace

bool compares_frameworks(const SearchRun& run) {
  if (run.framework != nullptr || !run.by_recipes) return false;
  try {
    (void)decoder_sizes(run.model);
    (void)hosts_of(run.topology);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

std::vector<FrameworkRow> framework_rows(const SearchRun& run, const RecipeRanking& ranked) {
  const Deadline* whole = deadline_kept();
  const bool limited = whole != nullptr && whole->limited();
  const auto until = [&](double share) {
    const double seconds = limited ? share * std::max(0.0, whole->left()) : kSecondsOfEach;
    return whole != nullptr ? whole->within(seconds) : Deadline(seconds);
  };
  constexpr double kForOneOfRanked = 0.7;
  std::vector<FrameworkRow> rows;
  for (const Framework& framework : frameworks()) {
    const Deadline share = until(kForOneOfRanked);
    const KeepTo keep(share);
    rows.push_back(row_of_ranked(run, framework, ranked));
  }
  // Frameworks that are not refused take turns, those without a plan first.
  std::vector<FrameworkRow*> turns;
  for (FrameworkRow& row : rows) {
    if (row.best || row.note.empty()) turns.push_back(&row);
  }
  std::ranges::stable_sort(turns, {}, [](const FrameworkRow* row) { return row->best.has_value(); });
  auto left = static_cast<double>(turns.size());
  for (FrameworkRow* row : turns) {
    const Deadline share = until(1 / left--);
    const KeepTo keep(share);
    improve(*row, run);
  }
  return rows;
}

void take_fastest_of(const std::vector<FrameworkRow>& rows, const PlanRequest& request,
                     PlannerAnswer& answer) {
  if (!answer.scored || !answer.recipes) return;
  const FrameworkRow* fastest = nullptr;
  Nanoseconds least = answer.scored->time;
  for (const FrameworkRow& row : rows) {
    if (!row.best || kind_of(row.runtime) != kind_of(request.costs.runtime().name)) continue;
    if (row.best->evaluation.time >= least) continue;
    least = row.best->evaluation.time;
    fastest = &row;
  }
  if (fastest == nullptr) return;
  try {
    RatedRecipe rated{fastest->best->recipe, fastest->best->bound, {}, {}, 0};
    PlannedModel made = plan_of_recipe(request, rated.recipe);
    if (illegal(made.graph, made.strategy, made.options, request.topology())) return;
    Evaluator evaluator(made.graph, request.costs, made.options);
    const Evaluated found = evaluator.evaluate(made.strategy, {.peaks = true});
    rated.evaluation = *found.cost;
    rated.take_memory(found.peaks, request.topology());
    if (!rated.evaluation.feasible() || rated.evaluation.time >= answer.scored->time) return;
    constexpr double kPercent = 100;
    answer.note =
        fmt::format("found among the recipes of {}, {:.1f} % faster than what was found among all",
                    fastest->framework.title, kPercent * change(rated.evaluation.time, answer.scored->time));
    answer.contributions.push_back(
        {fmt::format("recipes of {}", fastest->framework.name), rated.evaluation, fastest->seconds,
         fastest->note, static_cast<std::int64_t>(devices_used(made.strategy, request.topology()))});
    answer.plan = std::move(made);
    answer.scored = rated.evaluation;
    answer.recipes->rated.insert(answer.recipes->rated.begin(), std::move(rated));
  } catch (const InputError&) {  // it stays a row of the table
  } catch (const OutOfTime&) {
  }
}

std::string to_text(const std::vector<FrameworkRow>& rows, Nanoseconds best, const std::string& runtime) {
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
  std::string text = "the best that frameworks run; --for NAME looks for one of them alone\n" + table.str(2);
  for (const FrameworkRow& row : rows) {
    if (row.best && kind_of(row.runtime) != kind_of(runtime))
      text += fmt::format("  {} is timed under the runtime {}, the best of all under {}\n",
                          row.framework.name, kind_of(row.runtime), kind_of(runtime));
  }
  return text;
}

nlohmann::ordered_json json_of(const std::vector<FrameworkRow>& rows, Nanoseconds best) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FrameworkRow& row : rows) {
    nlohmann::ordered_json json{{"framework", row.framework.name},
                                {"recipe", nullptr},
                                {"iteration_time_s", nullptr},
                                {"above_best", nullptr},
                                {"peak_memory_bytes", nullptr},
                                {"runtime", row.runtime},
                                {"note", row.note}};
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
