#pragma once

#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// What Megatron-LM runs, by the documentation of its settings.
Framework megatron_framework();

/// Releases of Megatron core, and the main branch.
const std::vector<FrameworkVersion>& megatron_versions();

}  // namespace pipesim
