#include "tools/cli/options/search_options.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/cli/options/planner_options.h"
#include "tools/cli/options/shared_options.h"

namespace pipesim {
namespace {

// What only chains can do is refused elsewhere.
void check_checkpoints(const Arguments& a) {
  if (a.given("checkpoint-every") && !a.has("checkpoint"))
    throw UsageError("search: --checkpoint-every needs --checkpoint FILE");
  for (const char* option : {"checkpoint", "resume"}) {
    if (a.has(option) && !algorithm_of(a).keeps_checkpoints)
      throw UsageError(fmt::format("search: --{} needs --algorithm mcmc or auto", option));
  }
}

std::vector<Choice> algorithm_choices() {
  std::vector<Choice> choices;
  for (const Algorithm& a : algorithms()) choices.push_back({std::string(a.name), std::string(a.summary)});
  return choices;
}

}  // namespace

void check_search_options(const Arguments& a) {
  std::vector<std::string> algorithms;
  for (const Choice& choice : algorithm_choices()) algorithms.push_back(choice.name);
  (void)a.choice("algorithm", algorithms);
  const bool tries_all_splits = algorithm_of(a).makes_stages && asks_for_splits(a);
  if (tries_all_splits && parse_recompute(a.text("recompute")).any())
    throw UsageError("search: --algorithm exhaustive and --recompute exclude each other without stages");
  if (tries_all_splits && a.text("state-sharding") != "none")
    throw UsageError("search: --algorithm exhaustive and --state-sharding exclude each other without stages");
  check_checkpoints(a);
  check_planner_options(a);
}

std::vector<Option> own_search_options() {
  return in_group(
      OptionGroup::Search,
      {{.name = "algorithm",
        .argument = "NAME",
        .default_value = std::string(default_algorithm().name),
        .help = "auto, recipes, mcmc, gpipe, …",
        .choices = algorithm_choices()},
       {.name = "seconds",
        .argument = "N",
        .default_value = "30",
        .help = "finish within this time",
        .details = "For baselines, lower bound, planners, search and report together, whatever the "
                   "algorithm. 0: no limit, so that recipes are ranked until the best is proven. Without "
                   "--seconds there is none where --proposals is given, or under mpirun."},
       {.name = "proposals",
        .argument = "N",
        .default_value = "",
        .help = "stop after this many proposals, instead of --seconds",
        .details = "With exhaustive and pipelines: pipelines that are simulated."},
       {"seed", "N", "1", "seed of all random choices"},
       {.name = "threads",
        .argument = "N",
        .default_value = "all cores",
        .help = "threads to run chains or simulations of recipes on",
        .details =
            "At most as many as chains. With a budget in proposals the plan does not depend on them, nor "
            "do recipes that are ranked to the end."},
       {"chains", "N", "8", "number of Markov chains, each at its own temperature"},
       {.name = "moves",
        .argument = "NAME",
        .default_value = "all",
        .help = "which changes are proposed",
        .choices = {{"all", "all kinds of changes"},
                    {"flexflow",
                     "FlexFlow's: one chain from data parallelism that gives one operator a random config; "
                     "for comparison"}}},
       {.name = "checkpoint",
        .argument = "FILE",
        .default_value = "",
        .help = "write checkpoints to FILE, for --resume",
        .details = "Written every --checkpoint-every seconds and at the end. FILE is replaced as a whole, so "
                   "it is always complete."},
       {"checkpoint-every", "SECONDS", "3", "seconds between checkpoints; 0: as often as possible"},
       {.name = "resume",
        .argument = "FILE",
        .default_value = "",
        .help = "continue from a checkpoint of the same search",
        .details = "Budgets count from the beginning of the first run. Seed and chains come from the "
                   "checkpoint; others are refused. With a budget in proposals the result is the same, byte "
                   "for byte, as without the interruption. auto does not repeat algorithms that are done. So "
                   "with a larger budget its plan may differ from that of one long run: a search over splits "
                   "that was done keeps its share of the smaller budget."}});
}

}  // namespace pipesim
