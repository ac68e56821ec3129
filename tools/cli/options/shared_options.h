#pragma once

#include <string>

#include "search/pipelines/listed_stages.h"
#include "search/planners/gpipe.h"
#include "search/search.h"
#include "taskgraph/plan/plan_json.h"
#include "tools/analysis/inputs/model_run.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/cli/base/arguments.h"

namespace pipesim {

/// Options that search, simulate and compare share, and functions that read them.
std::vector<Option> model_and_topology_options();
Option topology_option();
std::vector<Option> plan_options();
/// --set, which goes with a model.
Option set_option();
/// The model of --model, with the sizes of --set. UsageError when --model was not given.
std::string model_text_of(const Arguments& arguments);
/// --optimizer, --gradient-type and --gradient-piece.
std::vector<Option> weight_options();
/// --memory-margin, which goes with --topology.
Option memory_margin_option();
/// Opens a topology by its text, with --memory-margin. UsageError when the margin can't be read; InputError
/// when it leaves nothing of a device's memory.
Topology topology_of(const Arguments& arguments, const std::string& text);
/// The topology of --topology, which must be given.
Topology topology_of(const Arguments& arguments);
/// UsageError when it was not given.
const std::string& required_text(const Arguments& arguments, const std::string& option);
/// --microbatches, by default `microbatches` ("": none).
Option microbatches_option(const std::string& microbatches);
/// An option for each of PlanPolicies, by default as there: --recompute, --state-sharding and others.
std::vector<Option> policy_options();
/// --imbalance, by default even.
Option imbalance_option();
/// --schedule, `help` says of what.
Option schedule_option(const std::string& help);
/// --recipe, `help` says for what.
Option recipe_option(const std::string& help);
/// --recipe, which must be given. UsageError when it can't be read, or when an option is given that a recipe
/// sets.
Recipe recipe_of(const Arguments& arguments);
/// The same of one of several.
Recipe recipe_of(const Arguments& arguments, const std::string& text);
/// The model and microbatches that a recipe gives together with --model, --batch, --microbatch and
/// --microbatches; completes the recipe. `runtime`: what runs it, which says how tokens go to experts.
ModelRun recipe_run_of(const Arguments& arguments, const Topology& topology, const Runtime& runtime,
                       Recipe& recipe);
/// The value of a text option; "" when it was not given and has no default.
std::string text_or_none(const Arguments& arguments, const std::string& option);
/// --calibration FILE, for search, simulate and compare.
Option calibration_option();
/// --runtime NAME[:KEY=VALUE,…], for search, simulate and compare.
Option runtime_option();
/// The runtime of --runtime; pipesim's own without it, and where a command has no such option.
Runtime runtime_of(const Arguments& arguments);
/// The runtime of --runtime; without it that of runtime_for_recipes(), for the framework of --for.
Runtime runtime_of_recipes(const Arguments& arguments, const Topology& topology);
/// --tokens: "15T", "300B", or a plain number. UsageError otherwise.
double tokens_of(const Arguments& arguments);
/// --json.
Option json_option();
/// Names as choices without meanings.
std::vector<Choice> choices_of(const std::vector<std::string>& names);
std::vector<std::string> names_of_baselines();
/// --threads; by default the number of the process's cores, but no more than chains.
int threads_of(const Arguments& arguments);
/// --recompute.
Recompute recompute_of(const Arguments& arguments);
/// --seconds and --proposals; the default of the former counts only without the latter.
SearchBudget search_budget_of(const Arguments& arguments);
/// --schedule. UsageError when no plan can have it.
const std::string& schedule_of(const Arguments& arguments);
/// Whether --stages lists stages, and the list. UsageError when it can't be read.
bool lists_stages(const Arguments& arguments);
std::vector<ListedStage> stage_list_of(const Arguments& arguments);
/// --stages, --chunks and --schedule; --stages must be there, and a number.
PipelineDemand pipeline_demand_of(const Arguments& arguments);
/// --schedule if it was given, else all schedules that plans can have and that take no number.
std::vector<std::string> schedules_to_try(const Arguments& arguments);
/// --batch, --microbatch and --profile-batch, see ModelRun.
std::vector<Option> batch_options();
/// The model and microbatches that --model, --microbatches and batch_options() give together. UsageError when
/// they contradict each other; InputError when the model's batch can't be chosen.
ModelRun model_run_of(const Arguments& arguments);
/// UsageError when a plan can't have this many.
std::int32_t microbatches_of(const ModelRun& run);
PlanOptions plan_options_of(const Arguments& arguments, const ModelRun& run);
inline PlanOptions plan_options_of(const Arguments& arguments) {
  return plan_options_of(arguments, model_run_of(arguments));
}
/// profile_note() of --model; "" when --profile-batch is given.
std::string profile_note_of(const Arguments& arguments);
}  // namespace pipesim
