#pragma once

#include <vector>

#include "search/config_space.h"

namespace pipesim {

/// Groups of operators that moves change together. Every operator is in one unit. All operators of a unit
/// have the same candidates by number.
using MoveUnits = std::vector<std::vector<OperatorId>>;

MoveUnits single_operators(const CandidateSet& candidates);

/// A unit for each set of operators that are repeats of one another (Operator::repeat). Other operators that
/// use the same weight also form a unit.
MoveUnits repeated_operators(const CandidateSet& candidates);

/// Gives all operators of a unit the config of its first operator, if it is a candidate.
void make_alike(const CandidateSet& candidates, const MoveUnits& units, std::vector<std::size_t>& configs);

}  // namespace pipesim
