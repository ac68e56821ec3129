#pragma once

#include "tools/cli/base/arguments.h"

namespace pipesim {

/// UsageError when an option would write a file that another one reads or writes: "simulate: --trace would
/// replace plan.json, which --plan reads". --checkpoint may name what --resume reads.
void require_own_output_files(const Arguments& arguments);

}  // namespace pipesim
