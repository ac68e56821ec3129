#pragma once

#include <vector>

#include "search/intra/instance.h"

namespace pipesim {

/// The choices that answers of an instance may have.
struct NarrowedChoices {
  std::vector<std::vector<bool>> strategies;  ///< [node][strategy]
  std::vector<std::vector<bool>> pairs;       ///< [edge][as IntraInstance::Edge::cost]
};

/// Returns the strategies, and pairs of them at edges, that an answer which costs `most` or less may have. A
/// dual solution shows that only dearer answers have the others (fixing by reduced costs). So an instance
/// whose costs are themselves lower bounds can be narrowed before all its costs are known. Nothing of a node
/// is left where there is no such answer. Throws InputError as solve() does.
NarrowedChoices choices_within(const IntraInstance& instance, WideCost most);

}  // namespace pipesim
