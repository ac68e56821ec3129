#pragma once

#include "tools/cli/arguments.h"
#include "tools/running/plan_run.h"

namespace pipesim {

/// The setting that run_options() give (tools/commands/options/run_options.h).
RunSetting run_setting_of(const Arguments& arguments, const Topology& topology);

}  // namespace pipesim
