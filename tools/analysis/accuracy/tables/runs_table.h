#pragma once

#include <string>
#include <vector>

#include "tools/analysis/accuracy/tables/measured_run.h"
#include "tools/analysis/accuracy/tables/measured_table.h"

namespace pipesim {

/// What a row of a table can hold beside the reason why pipesim can't express it.
enum class RowKind : unsigned { Run = 1, Collective = 2, Mixture = 4 };

/// A column of the one form that tables of measured runs have.
struct RunsColumn {
  std::string name;
  unsigned kinds = 0;  ///< the RowKinds that may have a value in it, added
  std::string holds;   ///< what a cell holds, for help
};
const std::vector<RunsColumn>& runs_columns();

/// Returns why the table can't be one of measured runs: it lacks the columns that each kind of row must have.
/// "" where it has those of a kind.
std::string no_runs_table(const MeasuredTable& table);

/// Returns the rows of such a table. A row with a reason is none that pipesim can express. InputError
/// `FILE:LINE: what was found, what is allowed` for a column that is not known, a value that can't be read,
/// one that does not belong to the kind of row, and names of runs that the table has not. Models, topologies
/// and recipes are read where runs are predicted.
std::vector<MeasuredRun> runs_of_table(const MeasuredTable& table);

}  // namespace pipesim
