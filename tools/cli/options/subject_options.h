#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tools/analysis/inputs/subject.h"
#include "tools/cli/base/arguments.h"

namespace pipesim {

/// --plan, --model, --set, --topology, --baseline, --optimizer, --gradient-type, --gradient-piece,
/// --microbatches, --recompute, --stages, --chunks, --schedule, --memory-margin and --calibration, as
/// `command` offers them.
std::vector<Option> subject_options(const std::string& verb);
/// Warnings go to `err`. UsageError when they do not fit together, InputError when the plan does not fit the
/// model or topology.
Subject subject_of(const std::string& command, const Arguments& arguments, std::ostream& err);

}  // namespace pipesim
