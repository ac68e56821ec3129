#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// All frameworks that plans can be written for.
const std::vector<Framework>& frameworks();
/// InputError with "did you mean" when there is none of this name.
const Framework& framework_named(std::string_view name);

/// Returns the text of a plan's model, where `kept` of another framework is replaced by what this one keeps.
std::string plan_model_kept_by(const Framework& framework, std::string model);

}  // namespace pipesim
