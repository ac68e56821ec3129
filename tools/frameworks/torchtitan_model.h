#pragma once

#include <string>
#include <string_view>

#include "tools/frameworks/framework.h"

namespace pipesim {

/// A model that torchtitan has a configuration of.
struct TorchtitanModel {
  std::string_view zoo;
  std::string_view module;    ///< "llama3", of torchtitan.models
  std::string_view function;  ///< main: of its config_registry
  std::string_view flavor;    ///< 0.2: of its train spec
};

/// Returns the model of these sizes, apart from what fields say (sequence, type, positions, norms); null
/// without one.
const TorchtitanModel* torchtitan_model(const DecoderSizes& sizes);

/// The version that a plan is written for, and whether it is 0.2, with its TOML files.
const FrameworkVersion& torchtitan_version(const FrameworkPlan& plan);
bool takes_toml(const FrameworkPlan& plan);

/// Returns lines of Python that give a configuration's model the positions and norms of the plan's, on the
/// main branch.
std::string torchtitan_definition(const DecoderSizes& sizes);
/// The module that gives torchtitan 0.2 the plan's model, by the name kTorchtitanConfig.
std::string torchtitan_module(const FrameworkPlan& plan);

/// What the version can't run of a recipe.
void refuse_torchtitan_version(const FrameworkPlan& plan, RuleCheck& check);
/// What the version can't say of the model.
void refuse_torchtitan_definition(const FrameworkPlan& plan, RuleCheck& check);

/// The name of what is written: a module, a function, a model.
constexpr const char* kTorchtitanConfig = "pipesim_plan";

}  // namespace pipesim
