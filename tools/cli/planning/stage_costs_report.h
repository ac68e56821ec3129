#pragma once

#include "tools/cli/base/arguments.h"
#include "tools/cli/base/command.h"

namespace pipesim {

/// Plans stages from the file of --stage-costs alone; no model is needed.
int report_stage_costs(const Arguments& arguments, Streams& streams);

}  // namespace pipesim
