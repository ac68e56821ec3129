#pragma once

#include <string>

#include "tools/analysis/traces/trace_constants.h"

namespace pipesim {

std::string to_text(const TracedConstants& constants);

}  // namespace pipesim
