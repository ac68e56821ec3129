#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/training_work.h"
#include "search/recipe_planner/space/recipe_rules.h"
#include "tools/interop/framework/framework_plan.h"
#include "topologies/topology.h"

namespace pipesim {

/// A part of a plan that a framework can't express, why, and how the nearest plan that it can express
/// differs.
struct Refusal {
  std::string part;                           ///< "schedule=zb-h1", "operator layer3.ffn1"
  std::string reason;                         ///< "its pipelines run 1f1b, or interleaved with vpp"
  std::function<void(FrameworkPlan&)> amend;  ///< none: no other recipe would help
};
using Refusals = std::vector<Refusal>;
/// "schedule=zb-h1: its pipelines run …; zero2 with pp4: …", after what is beyond recipes.
std::string text_of(const std::vector<BeyondRecipes>& beyond, const Refusals& refusals);

/// What a framework's checks of a plan find: all refusals, or only whether there is one. The latter is for
/// searches, which check a million recipes.
class RuleCheck {
 public:
  static RuleCheck telling() { return RuleCheck(true); }
  static RuleCheck quiet() { return RuleCheck(false); }
  /// `make` returns the Refusal.
  template <class Make>
  void refuse(const Make& make) {
    passed_ = false;
    if (tells_) refusals_.push_back(make());
  }
  using Rule = void (*)(const FrameworkPlan& plan, RuleCheck& check);
  /// Applies one rule after the other. Where refusals are not collected, it stops at the first rule that
  /// refuses.
  void check(const FrameworkPlan& plan, std::initializer_list<Rule> rules) {
    for (const Rule rule : rules) {
      if (!tells_ && !passed_) return;
      rule(plan, *this);
    }
  }
  [[nodiscard]] bool passed() const { return passed_; }
  Refusals take() && { return std::move(refusals_); }

 private:
  explicit RuleCheck(bool tells) : tells_(tells) {}
  bool tells_, passed_ = true;
  Refusals refusals_;
};

/// A file of an export.
struct ExportedFile {
  std::string name, content;
};

/// A setting of a framework, as its users write it.
struct FrameworkSetting {
  std::string name, value;  ///< "--num-layers" and "80"; "": a flag without a value
};

/// A framework: which recipes it runs, what its users switch on, and how a plan is written for it.
struct Framework {
  std::string_view name;   ///< "megatron"
  std::string_view title;  ///< "Megatron-LM"
  /// These find what it can't run of a recipe; what it can't run of the model, the types and the optimizer,
  /// whatever the recipe; and what an export lacks (nullptr: nothing).
  void (*check_recipe)(const FrameworkPlan& plan, RuleCheck& check);
  void (*check_model)(const FrameworkPlan& plan, RuleCheck& check);
  void (*check_export)(const FrameworkPlan& plan, RuleCheck& check);
  /// These two are for plans without refusals.
  std::vector<ExportedFile> (*files)(const FrameworkPlan& plan);
  std::vector<FrameworkSetting> (*settings)(const FrameworkPlan& plan);
  /// Sentences about what the files leave to the framework's own code, or run otherwise than the plan was
  /// rated; nullptr: there are none.
  std::vector<std::string> (*notes)(const FrameworkPlan& plan) = nullptr;
  const std::vector<FrameworkVersion>& (*versions)();  ///< the newest last
  /// The runtime of its plans on GPUs for which frameworks have fused attention; see parse_runtime().
  std::string_view runtime;
  std::string_view kept;  ///< what its kernels keep for backward: the option `kept` of decoders
  RecipeRules usual;      ///< what its users switch on; allows() is empty
  /// How it counts model FLOPs; its own title is added by flops_counting_of().
  FlopsCounting flops = {};

  /// Return all refusals of an export; those of a run; and those of the model, the types and the optimizer
  /// alone.
  [[nodiscard]] Refusals refusals(const FrameworkPlan& plan) const;
  [[nodiscard]] Refusals run_refusals(const FrameworkPlan& plan) const;
  [[nodiscard]] Refusals model_refusals(const FrameworkPlan& plan) const;
  /// Whether a plan of this model can be exported, with some recipe.
  [[nodiscard]] bool exports_model(const FrameworkPlan& plan) const;
  [[nodiscard]] bool runs_recipe(const FrameworkPlan& plan) const;
};

/// Returns the framework's version of this name; InputError, which lists the versions, when there is none.
const FrameworkVersion& version_named(const Framework& framework, std::string_view name);
/// "0.12, 0.13, main".
std::string version_names(const Framework& framework);

/// "Megatron-LM can't run WHAT: REASONS", or "Megatron-LM core 0.12 can't run …; Megatron-LM core 0.13 can"
/// where a later version than the plan's runs it.
std::string cant_run_text(const Framework& framework, const FrameworkPlan& plan, const std::string& what,
                          const std::string& reasons);

/// How the framework counts model FLOPs, under its title; nullptr: as pipesim itself does.
FlopsCounting flops_counting_of(const Framework* framework);

/// Returns rules for the recipes that the framework runs of the plan's model and samples, with what its users
/// switch on.
RecipeRules rules_of(const Framework& framework, const FrameworkPlan& plan);

/// A model's text as a framework runs it, and a sentence about what users may not expect of it; "": none.
struct ModelAsRun {
  std::string text, note;
};
/// Sets the option `kept` to what the framework keeps, and `attention` to scores where one of these kinds of
/// devices has no fused attention (DeviceKind::fuses_attention), with this dropout, if the model has these
/// options and the text does not set them.
ModelAsRun model_run_by(const Framework& framework, const std::string& model,
                        std::span<const DeviceKind> devices, double score_dropout = 0);

/// Returns the nearest plan that the framework can express: refusals are amended one after the other, until
/// there is none and the recipe is legal for the model. Nothing when there is no such plan.
std::optional<FrameworkPlan> nearest_expressible(const Framework& framework, const FrameworkPlan& plan,
                                                 const Refusals& refusals, const RecipeModel& model);

/// "left out is products=float8, which DeepSpeed's own code chooses".
std::string chosen_by_code(std::string_view option, std::string_view framework);
/// Appends notes on the loss that balances experts and on products in float8, where the plan's model has
/// them.
void note_balance_loss(const FrameworkPlan& plan, std::string_view framework,
                       std::vector<std::string>& notes);
/// Appends a note where the plan's optimizer runs otherwise than the framework's does.
void note_optimizer_kernel(const FrameworkPlan& plan, std::string_view framework,
                           std::vector<std::string>& notes);
void note_products(const FrameworkPlan& plan, std::string_view framework, std::vector<std::string>& notes);

/// Returns why a model that lacks what its config.json asks for is not exported; nothing where it has all.
std::optional<Refusal> partial_model(const FrameworkPlan& plan);
/// Returns why a model with adapters is not exported to what trains all weights; nothing where it has none.
std::optional<Refusal> adapted_model(const FrameworkPlan& plan);

/// An amendment of the recipe.
std::function<void(FrameworkPlan&)> amend_recipe(std::function<void(Recipe&)> change);

}  // namespace pipesim
