#pragma once

#include "tools/cli/arguments.h"
#include "tools/cli/command.h"

namespace pipesim {

/// Stages by the costs of --stage-costs alone, for which no model is needed.
int report_stage_costs(const Arguments& arguments, Streams& streams);

}  // namespace pipesim
