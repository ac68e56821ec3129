#pragma once

#include <vector>

#include "search/config_space.h"

namespace pipesim {

/// Operators that moves change together. Every operator is in one unit; all of a unit have the same
/// candidates by number.
using MoveUnits = std::vector<std::vector<OperatorId>>;

MoveUnits single_operators(const CandidateSet& candidates);

/// Repeats of a block (Operator::repeat), operator by operator; and of those that are no repeats, all that
/// use the same weight.
MoveUnits repeated_operators(const CandidateSet& candidates);

/// Gives all operators of a unit the config of its first one, where that is a candidate.
void make_alike(const CandidateSet& candidates, const MoveUnits& units, std::vector<std::size_t>& configs);

}  // namespace pipesim
