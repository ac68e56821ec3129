#include "tools/commands/options/search_options.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "tools/commands/options/planner_options.h"
#include "tools/commands/options/shared_options.h"
#include "tools/inputs/model_and_topology.h"

namespace pipesim {
namespace {

// What only chains can do is refused elsewhere.
void check_checkpoints(const Arguments& a) {
  if (a.given("checkpoint-every") && !a.has("checkpoint"))
    throw UsageError("search: --checkpoint-every needs --checkpoint FILE");
  const bool may = a.text("algorithm") == "mcmc" || a.text("algorithm") == "auto";
  for (const char* option : {"checkpoint", "resume"}) {
    if (a.has(option) && !may)
      throw UsageError(fmt::format("search: --{} needs --algorithm mcmc or auto", option));
  }
}

std::vector<Choice> algorithm_choices() {
  std::vector<Choice> choices{{"mcmc", "Markov chains over the splits of operators"},
                              {"exhaustive",
                               "small cases: proves the optimum; of pipelines where --stages, --schedule, "
                               "--layers or --microbatches is "
                               "given"}};
  for (const PlannerChoice& planner : planner_choices())
    choices.push_back({std::string(planner.name), "pipelines: " + std::string(planner.summary)});
  for (const std::string& name : names_of_baselines()) choices.push_back({name, "that baseline"});
  return choices;
}

}  // namespace

void check_search_options(const Arguments& a) {
  std::vector<std::string> algorithms;
  for (const Choice& choice : algorithm_choices()) algorithms.push_back(choice.name);
  if (a.choice("algorithm", algorithms) == "exhaustive" && !planner_of(a) &&
      a.choice("recompute", recompute_names()) != "none")
    throw UsageError("search: --algorithm exhaustive and --recompute exclude each other without stages");
  check_checkpoints(a);
  check_planner_options(a);
}

std::vector<Option> own_search_options() {
  return in_group(
      OptionGroup::Search,
      {{.name = "algorithm",
        .argument = "NAME",
        .default_value = "mcmc",
        .help = "mcmc, auto, dapple, gpipe, …",
        .choices = algorithm_choices()},
       {.name = "seconds",
        .argument = "N",
        .default_value = "30",
        .help = "be done after this long",
        .details =
            "The time of baselines, lower bound, planners, search and report together. Not used when only "
            "--proposals is given, nor by planners but auto, or exhaustive of pipelines, unless it is "
            "given."},
       {.name = "proposals",
        .argument = "N",
        .default_value = "",
        .help = "stop after this many proposals, instead of --seconds",
        .details = "With exhaustive of pipelines: after so many that were simulated."},
       {"seed", "N", "1", "of all random choices"},
       {.name = "threads",
        .argument = "N",
        .default_value = "all cores",
        .help = "threads that chains run on",
        .details =
            "The plan does not depend on them where the budget is in proposals. There are never more than "
            "chains."},
       {"chains", "N", "8", "Markov chains, each at another temperature"},
       {.name = "moves",
        .argument = "NAME",
        .default_value = "all",
        .help = "which changes are proposed",
        .choices = {{"all", "all that are known"},
                    {"flexflow",
                     "one chain from data parallelism that gives one operator any config, for comparison"}}},
       {.name = "checkpoint",
        .argument = "FILE",
        .default_value = "",
        .help = "write to FILE what --resume goes on from",
        .details =
            "Now and then and at the end. FILE is replaced at once, so that there always is a whole one."},
       {"checkpoint-every", "SECONDS", "3", "time between checkpoints; 0: as often as can be"},
       {.name = "resume",
        .argument = "FILE",
        .default_value = "",
        .help = "go on from a checkpoint of the same search",
        .details =
            "Budgets count from its beginning; seed and chains are the checkpoint's, and others are refused. "
            "With a budget in proposals the result is the same bytes as without the interruption. What "
            "algorithms of auto have found is not looked for again: with a larger budget auto's plan may be "
            "another than that of one long run, since its search over splits, once done, keeps the share of "
            "the smaller budget."}});
}

}  // namespace pipesim
