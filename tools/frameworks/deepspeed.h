#pragma once

#include <vector>

#include "tools/frameworks/framework_plan.h"

namespace pipesim {

/// What DeepSpeed can't run of a plan, by the documentation of its configuration.
Refusals deepspeed_refusals(const FrameworkPlan& plan);

/// Releases.
const std::vector<FrameworkVersion>& deepspeed_versions();

/// The configuration in JSON, a script that launches it, the hosts and the order of ranks.
std::vector<ExportedFile> deepspeed_files(const FrameworkPlan& plan);

}  // namespace pipesim
