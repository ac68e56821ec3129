#pragma once

#include <string>
#include <vector>

#include "tools/cli/arguments.h"

namespace pipesim {

/// Options of commands that run plans, see run_setting_of() (tools/running/plan_run.h).
std::vector<Option> run_options(const std::string& steps = "20");

}  // namespace pipesim
