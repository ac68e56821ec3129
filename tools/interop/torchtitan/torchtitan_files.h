#pragma once

#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// A configuration in Python with its fields as overrides of the command line, or for 0.2 a TOML file with
/// the model in Python; the schedule, a script that launches it, the hosts and the order of ranks.
std::vector<ExportedFile> torchtitan_files(const FrameworkPlan& plan);

}  // namespace pipesim
