#pragma once

#include <string>

#include "tools/analysis/whatif/study.h"

namespace pipesim {

/// A row for each point, and sparklines of the time along the longest axis.
std::string to_text(const Study& study);
/// The same as CSV, with all figures: a first line with the names of the columns.
std::string to_csv(const Study& study);

}  // namespace pipesim
