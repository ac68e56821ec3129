#pragma once

#include <vector>

#include "tools/cli/base/command.h"

namespace pipesim {

/// Returns the options of `pipesim whatif`: its own, and those of `simulate` and `search` that points may
/// have.
std::vector<Option> whatif_options();

}  // namespace pipesim
