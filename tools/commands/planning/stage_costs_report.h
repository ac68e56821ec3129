#pragma once

#include "tools/cli/arguments.h"
#include "tools/cli/command.h"

namespace pipesim {

/// Plans stages from the file of --stage-costs alone; no model is needed.
int report_stage_costs(const Arguments& arguments, Streams& streams);

}  // namespace pipesim
