#include "tools/cli/options/framework_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/interop/framework/open_run.h"
#include "tools/interop/frameworks.h"

namespace pipesim {
namespace {

constexpr std::string_view kItself = "pipesim";

// "tp2,dp8,mbs1 (--tensor-model-parallel-size 2)": with the settings that copies of the whole model do not
// have.
std::string in_its_terms(const Framework& framework, const FrameworkPlan& plan) {
  FrameworkPlan copies = plan;
  copies.recipe = Recipe();
  copies.recipe.data = plan.recipe.devices();
  copies.recipe.microbatch = plan.recipe.microbatch;
  copies.layers = {plan.sizes.layers};
  const std::vector<FrameworkSetting> usual = framework.settings(copies);
  std::vector<std::string> words;
  for (const FrameworkSetting& s : framework.settings(plan)) {
    const bool same = std::ranges::any_of(
        usual, [&](const FrameworkSetting& other) { return other.name == s.name && other.value == s.value; });
    if (!same) words.push_back(s.value.empty() ? s.name : s.name + " " + s.value);
  }
  return words.empty() ? plan.recipe.str() : fmt::format("{} ({})", plan.recipe.str(), fmt::join(words, " "));
}

}  // namespace

Option for_option() {
  Option option{.name = "for",
                .argument = "FRAMEWORK",
                .default_value = "",
                .help = "what will run the plan: only what it can run, as it runs it",
                .details =
                    "Plans that it can't run are refused, or not considered. Its runtime and what its "
                    "kernels keep for backward count, unless --runtime or the model says otherwise. "
                    "Searches switch on the overlap that its users switch on. Reports count model "
                    "FLOPs as it does. NAME:VERSION: what this version of it runs; its newest by default."};
  option.choices.push_back({std::string(kItself), "runs everything; the same as without --for"});
  for (const Framework& framework : frameworks())
    option.choices.push_back({std::string(framework.name), std::string(framework.title)});
  return option;
}

FrameworkName framework_name_of(const Arguments& a, const std::string& option,
                                const std::vector<std::string>& others) {
  std::vector<std::string> names;
  for (const Framework& framework : frameworks()) names.emplace_back(framework.name);
  names.insert(names.end(), others.begin(), others.end());
  const std::string& text = a.text(option);
  const std::size_t colon = text.find(':');
  const auto named = std::ranges::find(frameworks(), text.substr(0, colon), &Framework::name);
  if (named == frameworks().end() && colon != std::string::npos)
    a.refuse(fmt::format("--{} {}: found framework \"{}\"{}, allowed: {}", option, text,
                         text.substr(0, colon), did_you_mean(text.substr(0, colon), names),
                         list_names(names, names.size())));
  if (named == frameworks().end()) return {a.choice(option, names), nullptr, {}, false};
  if (colon == std::string::npos) return {std::string(named->name), &*named, named->versions().back(), false};
  try {
    return {std::string(named->name), &*named, version_named(*named, text.substr(colon + 1)), true};
  } catch (const InputError& error) {
    a.refuse(fmt::format("--{} {}: {}", option, text, error.what()));
  }
}

const Framework* framework_of(const Arguments& a) {
  return a.has("for") ? framework_name_of(a, "for", {std::string(kItself)}).framework : nullptr;
}

FrameworkVersion framework_version_of(const Arguments& a) {
  return framework_name_of(a, "for", {std::string(kItself)}).version;
}

void require_recipe_of(const Arguments& a, const ModelRun& run, const Recipe& recipe,
                       const PlanOptions& options, const Topology& topology) {
  const Framework* framework = framework_of(a);
  if (framework == nullptr) return;
  const OperatorGraph graph = open_model(run.model);
  const RecipeModel model(graph);
  const std::int64_t samples = recipe.data * recipe.microbatch * run.microbatches;
  FrameworkPlan plan =
      framework_question(*framework, framework_version_of(a), run.model, samples, options, topology);
  plan.recipe = recipe;
  plan.layers = divide_layers(recipe, plan.sizes.layers).layers;
  const Refusals refusals = framework->run_refusals(plan);
  if (refusals.empty()) return;
  const auto nearest = nearest_expressible(*framework, plan, refusals, model);
  throw InputError(
      cant_run_text(*framework, plan, recipe.str(), text_of({}, refusals)) +
      (nearest ? fmt::format("; the nearest that it can is {}", in_its_terms(*framework, *nearest)) : ""));
}

Recipe required_recipe(const Framework& framework, const FrameworkVersion& version, const Plan& plan,
                       const RecipeModel& model, const Topology& topology) {
  ReadPlan read = read_framework_plan(plan, model, topology);
  read.plan.version = version;
  const std::string refusals = text_of(read.beyond_recipes, framework.run_refusals(read.plan));
  if (!read.beyond_recipes.empty())
    throw InputError(fmt::format("{} can't run this plan: {}", framework.title, refusals));
  if (!refusals.empty()) throw InputError(cant_run_text(framework, read.plan, "this plan", refusals));
  return read.plan.recipe;
}

std::vector<Option> recipe_condition_options(const std::string& of) {
  return {{.name = "only",
           .argument = "PART=VALUES",
           .default_value = "",
           .help = of + "choose among recipes with this part",
           .repeated = true,
           .details =
               "Such as tp=4,8, zero=0,1, sp=on or schedule=1f1b. Parts: tp, cp, dp, ep, etp, pp, vpp, mbs, "
               "sp (on, off), zero, shard (a number, all), recompute, schedule, first and last (a number, "
               "even); and what runs beside compute: overlap (gather: of weights with zero1 and zero2; "
               "none), reduce (overlapped, after-steps: gradients of pipelines), tp-overlap (always, never) "
               "and messages (beside, blocking: between stages; none: without them), which are on where the "
               "framework has them, unless a condition says otherwise. May be given several times."},
          {.name = "not",
           .argument = "PART=VALUES",
           .default_value = "",
           .help = of + "choose among recipes without it",
           .repeated = true}};
}

std::vector<RecipeCondition> recipe_conditions_of(const Arguments& a) {
  std::vector<RecipeCondition> conditions;
  for (const std::string& text : a.texts("only")) conditions.push_back(parse_recipe_condition(text, false));
  for (const std::string& text : a.texts("not")) conditions.push_back(parse_recipe_condition(text, true));
  return conditions;
}

}  // namespace pipesim
