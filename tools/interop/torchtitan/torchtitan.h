#pragma once

#include <vector>

#include "tools/interop/framework/framework.h"

namespace pipesim {

/// What torchtitan runs, by the documentation of its settings.
Framework torchtitan_framework();

/// 0.2, the last with TOML files, and the main branch, whose configurations are functions in Python.
const std::vector<FrameworkVersion>& torchtitan_versions();

}  // namespace pipesim
