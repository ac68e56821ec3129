#pragma once

#include <vector>

#include "tools/cli/base/arguments.h"

namespace pipesim {

/// Options of `search` that no other command has: the algorithm, its budget, its chains and checkpoints.
std::vector<Option> own_search_options();
/// UsageError when --algorithm names no algorithm, or when another option does not go with it.
void check_search_options(const Arguments& arguments);

}  // namespace pipesim
