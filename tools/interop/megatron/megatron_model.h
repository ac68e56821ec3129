#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/interop/framework/framework.h"
#include "tools/interop/megatron/megatron_arguments.h"

namespace pipesim {

/// Collects arguments.
class MegatronWriter {
 public:
  void flag(const char* name) { arguments_.push_back({name, {}}); }
  template <class... T>
  void add(const char* name, const T&... values) {
    arguments_.push_back({name, {text(values)...}});
  }
  void add_all(const char* name, std::vector<std::string> values) {
    arguments_.push_back({name, std::move(values)});
  }
  std::vector<MegatronArgument> take() && { return std::move(arguments_); }

 private:
  static std::string text(std::string_view value) { return std::string(value); }
  static std::string text(double value);  // as short as it can be
  static std::string text(std::integral auto value) { return std::to_string(value); }

  std::vector<MegatronArgument> arguments_;
};

/// The version that a plan is written for.
const FrameworkVersion& megatron_version(const FrameworkPlan& plan);

/// What defines the model: its sizes, positions, norms, router and types. All of it is written, as defaults
/// of the framework differ from version to version.
void write_megatron_model(const FrameworkPlan& plan, MegatronWriter& w);

/// Refuses models with groups of keys and values that the version does not divide over tp.
void refuse_megatron_groups(const FrameworkPlan& plan, RuleCheck& check);
/// Refuses what the version's arguments can't say of the model.
void refuse_megatron_definition(const FrameworkPlan& plan, RuleCheck& check);

}  // namespace pipesim
