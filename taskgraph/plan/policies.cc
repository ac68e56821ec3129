#include "taskgraph/plan/policies.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "sim/base/json_reader.h"

namespace pipesim {
namespace {

template <class Read>
auto word_at(const JsonValue& value, Read read) {
  try {
    return read(value.string());
  } catch (const InputError& error) {
    value.fail(error.what());
  }
}

}  // namespace

std::string_view name_of(GatheredInputs gathered) {
  return gathered == GatheredInputs::Keep ? "keep" : "again";
}

GatheredInputs parse_gathered_inputs(std::string_view name) {
  for (const GatheredInputs gathered : {GatheredInputs::Keep, GatheredInputs::Again}) {
    if (name == name_of(gathered)) return gathered;
  }
  throw InputError(fmt::format("gathered inputs \"{}\", allowed: keep, again", name));
}

std::string_view name_of(GradientReduction reduction) {
  return reduction == GradientReduction::Overlapped ? "overlapped" : "after-steps";
}

GradientReduction parse_gradient_reduction(std::string_view name) {
  for (const GradientReduction reduction : {GradientReduction::Overlapped, GradientReduction::AfterSteps}) {
    if (name == name_of(reduction)) return reduction;
  }
  throw InputError(fmt::format("gradient reduction \"{}\", allowed: overlapped, after-steps", name));
}

std::string PlanPolicies::shared_text() const {
  return fmt::format("{} {} {}", state_sharding.str(), name_of(gathered_inputs), name_of(gradient_reduction));
}

void write_policies(const PlanPolicies& policies, nlohmann::ordered_json& to) {
  const PlanPolicies usual;
  if (policies.state_sharding.any()) to["state_sharding"] = policies.state_sharding.str();
  if (policies.gathered_inputs != usual.gathered_inputs)
    to["gathered_inputs"] = name_of(policies.gathered_inputs);
  if (policies.gradient_reduction != usual.gradient_reduction)
    to["gradient_reduction"] = name_of(policies.gradient_reduction);
}

void read_policies(const JsonValue& from, PlanPolicies& policies) {
  if (const auto v = from.find("state_sharding")) policies.state_sharding = word_at(*v, parse_state_sharding);
  if (const auto v = from.find("gathered_inputs"))
    policies.gathered_inputs = word_at(*v, parse_gathered_inputs);
  if (const auto v = from.find("gradient_reduction"))
    policies.gradient_reduction = word_at(*v, parse_gradient_reduction);
}

}  // namespace pipesim
