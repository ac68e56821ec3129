#pragma once

#include <string>

#include "tools/interop/framework/framework.h"
#include "tools/interop/torchtitan/torchtitan_flavors.h"

namespace pipesim {

/// Returns the model with the sizes of the plan's that the plan's version has, apart from what exports write
/// (sequence, type, positions, norms); null without one.
const TorchtitanFlavor* torchtitan_model(const FrameworkPlan& plan);

/// The version that a plan is written for, and whether it is 0.2, with its TOML files.
const FrameworkVersion& torchtitan_version(const FrameworkPlan& plan);
bool takes_toml(const FrameworkPlan& plan);

/// Returns lines of Python that give a configuration of the main branch the plan's model: its flavor, where
/// the configuration has another one, and its positions and norms.
std::string torchtitan_definition(const FrameworkPlan& plan);
/// The module that gives torchtitan 0.2 the plan's model, by the name kTorchtitanConfig.
std::string torchtitan_module(const FrameworkPlan& plan);

/// Makes copies of the stages of a pipeline.
void leave_out_pipeline(Recipe& recipe);

/// What the version can't run of a recipe.
void refuse_torchtitan_version(const FrameworkPlan& plan, RuleCheck& check);
/// What the version can't say of the model.
void refuse_torchtitan_definition(const FrameworkPlan& plan, RuleCheck& check);

/// The name of what is written: a module, a function, a model.
constexpr const char* kTorchtitanConfig = "pipesim_plan";

}  // namespace pipesim
