#include "tools/interop/framework/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"

namespace pipesim {
namespace {

// How often amendments may lead to other refusals.
constexpr int kMostAmendments = 8;

}  // namespace

std::string text_of(const std::vector<BeyondRecipes>& beyond, const Refusals& refusals) {
  std::string text;
  const auto add = [&](const std::string& part, const std::string& reason) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", part, reason);
  };
  for (const BeyondRecipes& what : beyond) add(what.part, what.reason);
  for (const Refusal& refusal : refusals) add(refusal.part, refusal.reason);
  return text;
}

Refusals Framework::refusals(const FrameworkPlan& plan) const {
  RuleCheck check = RuleCheck::telling();
  if (check_export != nullptr) check_export(plan, check);
  check_model(plan, check);
  check_recipe(plan, check);
  return std::move(check).take();
}

Refusals Framework::run_refusals(const FrameworkPlan& plan) const {
  RuleCheck check = RuleCheck::telling();
  check_model(plan, check);
  check_recipe(plan, check);
  return std::move(check).take();
}

Refusals Framework::model_refusals(const FrameworkPlan& plan) const {
  RuleCheck check = RuleCheck::telling();
  check_model(plan, check);
  return std::move(check).take();
}

bool Framework::exports_model(const FrameworkPlan& plan) const {
  RuleCheck check = RuleCheck::quiet();
  if (check_export != nullptr) check_export(plan, check);
  check_model(plan, check);
  return check.passed();
}

bool Framework::runs_recipe(const FrameworkPlan& plan) const {
  RuleCheck check = RuleCheck::quiet();
  check_recipe(plan, check);
  return check.passed();
}

std::string version_names(const Framework& framework) {
  std::vector<std::string> names;
  for (const FrameworkVersion& version : framework.versions()) names.emplace_back(version.name);
  return list_names(names, names.size());
}

const FrameworkVersion& version_named(const Framework& framework, std::string_view name) {
  const std::vector<FrameworkVersion>& all = framework.versions();
  const auto found = std::ranges::find(all, name, &FrameworkVersion::name);
  if (found != all.end()) return *found;
  throw InputError(fmt::format("found version \"{}\" of {}, allowed: {}", name, framework.title,
                               version_names(framework)));
}

std::string cant_run_text(const Framework& framework, const FrameworkPlan& plan, const std::string& what,
                          const std::string& reasons) {
  FrameworkPlan later = plan;
  const FrameworkVersion& asked = plan.version.name.empty() ? framework.versions().back() : plan.version;
  for (const FrameworkVersion& version : framework.versions()) {
    if (version.number <= asked.number) continue;
    later.version = version;
    if (framework.run_refusals(later).empty())
      return fmt::format("{} can't run {}: {}; {} can", asked.title, what, reasons, version.title);
  }
  return fmt::format("{} can't run {}: {}", framework.title, what, reasons);
}

FlopsCounting flops_counting_of(const Framework* framework) {
  if (framework == nullptr) return {};
  FlopsCounting counting = framework->flops;
  counting.framework = framework->title;
  return counting;
}

RecipeRules rules_of(const Framework& framework, const FrameworkPlan& plan) {
  RecipeRules rules = framework.usual;
  FrameworkPlan asked = plan;
  asked.hosts = {};  // no rule looks at them, and there may be thousands
  // A search asks for thousands of recipes, and those that follow one another mostly divide layers alike.
  asked.recipe.pipeline = 0;
  rules.allows = [&framework, asked = std::move(asked)](const Recipe& recipe) mutable {
    const auto division = [](const Recipe& r) {
      return std::tie(r.pipeline, r.chunks, r.first, r.last, r.layers, r.schedule);
    };
    const bool divided = division(asked.recipe) == division(recipe);
    asked.recipe = recipe;
    if (!divided) asked.layers = divide_layers(recipe, asked.sizes.layers).layers;
    return framework.runs_recipe(asked);
  };
  return rules;
}

ModelAsRun model_run_by(const Framework& framework, const std::string& model,
                        std::span<const DeviceKind> devices, double score_dropout) {
  const std::string zoo = model_of_config(model);
  const auto named = std::ranges::find(zoo_models(), zoo.substr(0, zoo.find(':')), &ZooModel::name);
  if (named == zoo_models().end()) return {model, ""};
  const auto is_open = [&](const std::string& key) {
    return zoo.find(key + "=") == std::string::npos &&
           std::ranges::find(named->options, key, &ZooOption::key) != named->options.end();
  };
  std::vector<std::string> settings;
  std::string note;
  if (is_open("kept")) settings.push_back(fmt::format("kept={}", framework.kept));
  const auto without = std::ranges::find_if_not(devices, &DeviceKind::fuses_attention);
  if (without != devices.end() && is_open("attention")) {
    settings.emplace_back("attention=scores");
    note = fmt::format("attention=scores: on {} {} has no fused attention and writes scores", without->name,
                       framework.title);
    if (score_dropout > 0 && is_open("attention_dropout")) {
      settings.push_back(fmt::format("attention_dropout={}", score_dropout));
      note += fmt::format(", of which it drops {}", score_dropout);
    }
  }
  return {settings.empty() ? model : with_settings(model, settings), std::move(note)};
}

std::optional<FrameworkPlan> nearest_expressible(const Framework& framework, const FrameworkPlan& plan,
                                                 const Refusals& refusals, const RecipeModel& model) {
  FrameworkPlan nearest = plan;
  Refusals open = refusals;
  for (int i = 0; i < kMostAmendments; ++i) {
    if (open.empty() && !model.illegal(nearest.recipe) &&
        nearest.samples % (nearest.recipe.data * nearest.recipe.microbatch) == 0) {
      nearest.layers = divide_layers(nearest.recipe, nearest.sizes.layers).layers;
      return nearest;
    }
    for (const Refusal& refusal : open) {
      if (!refusal.amend) return std::nullopt;
      refusal.amend(nearest);
    }
    if (model.illegal(nearest.recipe)) {
      const auto legal = nearest_legal(nearest.recipe, model, plan.recipe.devices());
      if (!legal) return std::nullopt;
      nearest.recipe = *legal;
    }
    if (nearest.samples % (nearest.recipe.data * nearest.recipe.microbatch) != 0)
      nearest.recipe.microbatch = 1;
    nearest.layers = divide_layers(nearest.recipe, nearest.sizes.layers).layers;
    open = framework.refusals(nearest);
  }
  return std::nullopt;
}

std::string chosen_by_code(std::string_view option, std::string_view framework) {
  return fmt::format("left out is {}, which {}'s own code chooses", option, framework);
}

void note_balance_loss(const FrameworkPlan& plan, std::string_view framework,
                       std::vector<std::string>& notes) {
  if (plan.sizes.experts && plan.sizes.experts->balance_loss > 0)
    notes.push_back(
        chosen_by_code(fmt::format("balance_loss={}", plan.sizes.experts->balance_loss), framework));
}

void note_products(const FrameworkPlan& plan, std::string_view framework, std::vector<std::string>& notes) {
  if (plan.sizes.products != "own")
    notes.push_back(chosen_by_code("products=" + plan.sizes.products, framework));
}

void note_optimizer_kernel(const FrameworkPlan& plan, std::string_view framework,
                           std::vector<std::string>& notes) {
  notes.push_back(
      chosen_by_code(fmt::format("optimizer-kernel={}", name_of(plan.optimizer_kernel)), framework));
}

std::optional<Refusal> partial_model(const FrameworkPlan& plan) {
  if (plan.sizes.other_layers)
    return Refusal{
        "model decoder", "layers by mixers and ffns have no arguments or fields that say them", {}};
  if (!plan.sizes.partial) return std::nullopt;
  return Refusal{
      "partial=yes",
      "the plan's model goes without what its config.json asks for, which \"pipesim import model\" "
      "lists; partial=no exports it all the same",
      {}};
}

std::optional<Refusal> adapted_model(const FrameworkPlan& plan) {
  if (plan.sizes.lora == 0) return std::nullopt;
  return Refusal{fmt::format("lora={}", plan.sizes.lora), "all weights are trained, without adapters", {}};
}

std::function<void(FrameworkPlan&)> amend_recipe(std::function<void(Recipe&)> change) {
  return [change = std::move(change)](FrameworkPlan& plan) { change(plan.recipe); };
}

}  // namespace pipesim
