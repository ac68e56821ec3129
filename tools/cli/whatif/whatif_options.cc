#include "tools/cli/whatif/whatif_options.h"

#include <algorithm>
#include <set>
#include <string>

#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/planner_options.h"
#include "tools/cli/options/search_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/cli/options/subject_options.h"

namespace pipesim {

std::vector<Option> whatif_options() {
  std::vector<Option> options{
      {.name = "vary",
       .argument = "PATH=VALUES",
       .default_value = "",
       .help = "what to vary, and its values; may be repeated",
       .repeated = true,
       .details =
           "VALUES is a list (10,25,50Gb/s) or a range (1..64*2, 1..8+1). Values that have commas are "
           "separated by semicolons (recipe='tp8,pp2;tp4,pp4'). x2 multiplies what a figure is. Paths that "
           "change together have | between them ('nodes|batch=1|64;2|128'). Each "
           "combination is a point; the last --vary changes fastest.",
       .group = OptionGroup::Search},
      {.name = "plans",
       .argument = "KIND",
       .default_value = "",
       .help = "where each point's plan comes from",
       .details =
           "Left out: same, where a plan, recipe or baseline is given or varied; search, where --algorithm "
           "is, and for models without recipes; else recipes.",
       .group = OptionGroup::Search,
       .choices = {{"same", "the one that is given"},
                   {"recipes", "the best recipe of each point"},
                   {"search", "what --algorithm finds at each point"}}},
      {.name = "crossovers",
       .argument = "",
       .default_value = "",
       .help = "find where the kind of plan changes",
       .group = OptionGroup::Search},
      {.name = "sensitivity",
       .argument = "",
       .default_value = "",
       .help = "what 10 % more of each figure would bring",
       .details =
           "Of one plan: for each rate and latency, how long today's critical path would be, and what a "
           "simulation says.",
       .group = OptionGroup::Search},
      {.name = "noise",
       .argument = "SPREADS",
       .default_value = "",
       .help = "let times vary from one iteration to the next",
       .details =
           "Any of operators=2%, links=10%, devices=3%, hosts=10% and stragglers=0.1%x1.5, with commas "
           "between: "
           "log-normal factors of mean 1 on each pass, transfer, device and launch, with these standard "
           "deviations; and the probability that a device is 1.5 times as slow in an iteration. Or "
           "calibration: "
           "operators and links as the samples of --calibration spread.",
       .group = OptionGroup::Search},
      {.name = "samples",
       .argument = "N",
       .default_value = "500",
       .help = "iterations with noise",
       .group = OptionGroup::Search},
      {.name = "objective",
       .argument = "NAME",
       .default_value = "p95",
       .help = "by which recipes are chosen under noise",
       .details =
           "p95: the time that 95 % of iterations do not exceed; or mean. The ten best recipes without "
           "noise are compared.",
       .group = OptionGroup::Search},
      {.name = "mtbf",
       .argument = "TIME",
       .default_value = "",
       .help = "mean time between failures of one device",
       .details = "Tells how often to write checkpoints, and how much of the time trains.",
       .group = OptionGroup::Search},
      {.name = "checkpoint-time",
       .argument = "TIME",
       .default_value = "30s",
       .help = "that writing a checkpoint takes",
       .group = OptionGroup::Search},
      {.name = "restart-time",
       .argument = "TIME",
       .default_value = "5min",
       .help = "from a failure until training goes on",
       .group = OptionGroup::Search},
      {.name = "tokens",
       .argument = "N",
       .default_value = "",
       .help = "tokens (or samples) to train with, such as 15T",
       .group = OptionGroup::Search},
      {.name = "target-time",
       .argument = "TIME",
       .default_value = "",
       .help = "name the cheapest point that trains --tokens in it",
       .group = OptionGroup::Search},
      {.name = "target-cost",
       .argument = "N",
       .default_value = "",
       .help = "name the fastest point that trains --tokens for it",
       .group = OptionGroup::Search},
      {.name = "threads",
       .argument = "N",
       .default_value = "all cores",
       .help = "points that are predicted at the same time",
       .group = OptionGroup::Search},
      {.name = "list",
       .argument = "",
       .default_value = "",
       .help = "list what can be varied",
       .group = OptionGroup::Output},
      {.name = "resume",
       .argument = "FILE",
       .default_value = "",
       .help = "run what a study lacks",
       .details = "FILE is written again, unless -o names another.",
       .group = OptionGroup::Search},
      {.name = "yes",
       .argument = "",
       .default_value = "",
       .help = "allow more than 100,000 points",
       .group = OptionGroup::Search}};
  std::set<std::string> names;
  for (const Option& o : options) names.insert(o.name);
  const auto add = [&](const std::vector<Option>& more) {
    for (const Option& o : more) {
      if (names.insert(o.name).second) options.push_back(o);
    }
  };
  add(subject_options("predict"));
  add({for_option(), runtime_option()});
  // Studies search by planners alone.
  std::vector<Option> of_searches = own_search_options();
  for (Option& option : of_searches) {
    if (option.name != "algorithm") continue;
    std::erase_if(option.choices, [](const Choice& choice) {
      return std::ranges::none_of(planners(), [&](const Algorithm* a) { return a->name == choice.name; });
    });
  }
  add(of_searches);
  add(planner_options());
  add(in_group(OptionGroup::Output, {{"output", "FILE", "", "write the study to FILE", 'o'},
                                     {"csv", "FILE", "", "write a table of all figures"},
                                     json_option()}));
  return options;
}

}  // namespace pipesim
