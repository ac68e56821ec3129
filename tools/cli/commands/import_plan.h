#pragma once

#include <vector>

#include "tools/cli/base/command.h"

namespace pipesim {

/// Options of `import plan` that go with nothing else.
std::vector<Option> import_plan_options();

/// `import plan FILE`: reads a run of Megatron-LM, writes its plan where --output says so, simulates it, and
/// compares it with the best recipe. The exit status is 1 when it does not fit into memory.
int import_plan(const Arguments& arguments, Streams& streams);

}  // namespace pipesim
