#include "tools/commands/options/framework_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "tools/inputs/model_and_topology.h"
#include "tools/inputs/recipe_run.h"

namespace pipesim {
namespace {

constexpr std::string_view kItself = "pipesim";

// Whether conditions on the part leave it as it usually is, on or off.
bool is_on(const std::vector<RecipeCondition>& conditions, RecipeTrait trait, bool usual, const Recipe& on,
           const Recipe& off) {
  bool allows_on = true, allows_off = true;
  for (const RecipeCondition& condition : conditions) {
    if (condition.trait != trait) continue;
    allows_on = allows_on && condition.holds(on);
    allows_off = allows_off && condition.holds(off);
  }
  return allows_on && (usual || !allows_off);
}

bool overlaps_products(const std::vector<RecipeCondition>& conditions, bool usual) {
  Recipe on, off;
  on.tensor_overlap = true;
  return is_on(conditions, RecipeTrait::TensorOverlap, usual, on, off);
}

std::optional<GradientReduction> reduction_of(const std::vector<RecipeCondition>& conditions,
                                              std::optional<GradientReduction> usual) {
  Recipe on, off;
  on.reduction = GradientReduction::Overlapped, off.reduction = GradientReduction::AfterSteps;
  const auto concerns = [](const RecipeCondition& c) { return c.trait == RecipeTrait::Reduction; };
  if (std::ranges::none_of(conditions, concerns)) return usual;
  return is_on(conditions, RecipeTrait::Reduction, usual == on.reduction, on, off) ? on.reduction
                                                                                   : off.reduction;
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
                    "FLOPs as it does."};
  option.choices.push_back({std::string(kItself), "runs everything; the same as without --for"});
  for (const Framework& framework : frameworks())
    option.choices.push_back({std::string(framework.name), std::string(framework.title)});
  return option;
}

const Framework* framework_of(const Arguments& a) {
  if (!a.has("for") || a.text("for") == kItself) return nullptr;
  std::vector<std::string> names{std::string(kItself)};
  for (const Framework& framework : frameworks()) names.emplace_back(framework.name);
  return &framework_named(a.choice("for", names));
}

FrameworkPlan framework_question(const Framework& framework, const std::string& model, std::int64_t samples,
                                 const PlanOptions& options, const Topology& topology) {
  FrameworkPlan question;
  question.model = model;
  question.sizes = decoder_sizes(model);
  question.samples = samples;
  question.optimizer = options.optimizer;
  question.gradient_type = options.gradient_type;
  question.hosts = hosts_of(topology);
  if (const Refusals refusals = framework.model_refusals(question); !refusals.empty())
    throw InputError(fmt::format("{} can't run this: {}", framework.title, text_of({}, refusals)));
  return question;
}

void require_recipe_of(const Arguments& a, const ModelRun& run, const Recipe& recipe,
                       const PlanOptions& options, const Topology& topology) {
  const Framework* framework = framework_of(a);
  if (framework == nullptr) return;
  const OperatorGraph graph = open_model(run.model);
  const RecipeModel model(graph);
  const std::int64_t samples = recipe.data * recipe.microbatch * run.microbatches;
  FrameworkPlan plan = framework_question(*framework, run.model, samples, options, topology);
  plan.recipe = recipe;
  plan.layers = divide_layers(recipe, plan.sizes.layers).layers;
  const Refusals refusals = framework->run_refusals(plan);
  if (refusals.empty()) return;
  const auto nearest = nearest_expressible(*framework, plan, refusals, model);
  throw InputError(
      fmt::format("{} can't run {}: {}{}", framework->title, recipe.str(), text_of({}, refusals),
                  nearest ? fmt::format("; the nearest that it can is {}", nearest->recipe.str()) : ""));
}

Recipe required_recipe(const Framework& framework, const Plan& plan, const RecipeModel& model,
                       const Topology& topology) {
  const ReadPlan read = read_framework_plan(plan, model, topology);
  const std::string refusals = text_of(read.beyond_recipes, framework.run_refusals(read.plan));
  if (!refusals.empty())
    throw InputError(fmt::format("{} can't run this plan: {}", framework.title, refusals));
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
               "none), reduce (overlapped, after-steps: gradients of pipelines) and tp-overlap (always, "
               "never), which are on unless a condition says otherwise. May be given several times."},
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

RecipeFilter recipe_filter_of(const Framework* framework, const std::optional<FrameworkPlan>& question,
                              std::vector<RecipeCondition> conditions, const Runtime& runtime) {
  RecipeRules rules;
  if (framework != nullptr) {
    rules = rules_of(*framework, question.value());
    rules.local_dispatch = true;
  } else if (runtime.has_host()) {
    rules.shardings = RecipeRules::overlapped_shardings();
    rules.reduction = GradientReduction::Overlapped;
    rules.tensor_overlap = true;
  }
  rules.tensor_overlap = overlaps_products(conditions, rules.tensor_overlap);
  rules.reduction = reduction_of(conditions, rules.reduction);
  return RecipeFilter(std::move(conditions), std::move(rules));
}

Runtime with_overlap_of(Runtime runtime, const RecipeFilter& filter) {
  Recipe recipe;
  if (filter.rules().tensor_overlap) recipe.tensor_overlap = true;
  recipe.reduction = filter.rules().reduction;
  return with_policies(std::move(runtime), recipe);
}

}  // namespace pipesim
