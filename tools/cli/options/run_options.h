#pragma once

#include <string>
#include <vector>

#include "tools/cli/base/arguments.h"

namespace pipesim {

/// Options of commands that run plans, see run_setting_of() (tools/cli/execution/run_setting_options.h).
std::vector<Option> run_options(const std::string& steps = "20");

/// --plan (several times) and --random, which add plans to the baselines that are run.
std::vector<Option> plan_set_options(const std::string& verb, const std::string& random);

}  // namespace pipesim
