#pragma once

#include <cstdint>

#include "search/intra/model.h"

namespace pipesim {

/// Which reductions may be used. Each alone keeps the optimum.
struct IntraReductions {
  bool supports = true;    ///< drop strategies that a neighbour forbids altogether, or that use too much
  bool dominated = true;   ///< drop strategies that another can always replace (Goldstein 1994, with usage)
  bool determined = true;  ///< drop nodes whose best strategy follows from a neighbour's
  bool degree_two = true;  ///< drop nodes without usage between two neighbours, which leaves an edge
  bool rows = true;        ///< drop rows that no choice can fill
};

/// Makes the model smaller; an optimum of what is left restores to one of the whole. Sets `infeasible` where
/// no choice is allowed.
void reduce(IntraModel& model, const IntraReductions& reductions = {});

}  // namespace pipesim
