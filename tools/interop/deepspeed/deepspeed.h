#pragma once

#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// What DeepSpeed runs, by the documentation of its settings.
Framework deepspeed_framework();

/// Releases.
const std::vector<FrameworkVersion>& deepspeed_versions();

/// The configuration in JSON, a script that launches it, the hosts and the order of ranks.
std::vector<ExportedFile> deepspeed_files(const FrameworkPlan& plan);

}  // namespace pipesim
