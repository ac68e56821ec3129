#pragma once

#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// The arguments, a script that launches them, the hosts and the order of ranks.
std::vector<ExportedFile> megatron_files(const FrameworkPlan& plan);

}  // namespace pipesim
