#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// Returns the runs of a table, whose form follows from its file's name, or else from its columns. Nothing
/// where it has none of the known forms. InputError for values that can't be read.
std::optional<std::vector<MeasuredRun>> runs_of_table(const std::string& file_name,
                                                      const MeasuredTable& table);

}  // namespace pipesim
