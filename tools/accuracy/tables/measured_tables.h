#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/accuracy/tables/measured_run.h"
#include "tools/accuracy/tables/measured_table.h"

namespace pipesim {

/// The runs of a table, which is of one of the known forms by its file's name, or else by its columns.
/// Nothing where it is of none. InputError for values that can't be read.
std::optional<std::vector<MeasuredRun>> runs_of_table(const std::string& file_name,
                                                      const MeasuredTable& table);

}  // namespace pipesim
