#pragma once

#include "tools/cli/base/arguments.h"
#include "tools/running/plan_run.h"

namespace pipesim {

/// The setting that run_options() give (tools/cli/options/run_options.h).
RunSetting run_setting_of(const Arguments& arguments, const Topology& topology);

}  // namespace pipesim
