#include "taskgraph/binding/addend_axes.h"

#include <algorithm>

namespace pipesim {

std::vector<FactorIndex> addend_axes(const Operator& op, const TensorUse& use, const ParallelConfig& config) {
  const bool gradient = use.role != Role::Output;
  std::vector<FactorIndex> axes;
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    const auto factor = static_cast<FactorIndex>(f);
    // What passes round a ring comes back as the shard's own part.
    const bool own_part = config.ring && factor == op.rotation->first && use.follows(op.rotation->second);
    const bool summed = !own_part && !use.follows(factor) && use.lack(factor) == Lack::Summed;
    const bool overlaps =
        gradient && std::any_of(use.dims.begin(), use.dims.end(), [&](const IndexExpr& dim) {
          return dim.overlaps() && dim.factors.front() == factor;
        });
    if (config.degrees[f] > 1 && (summed || overlaps)) axes.push_back(factor);
  }
  return axes;
}

}  // namespace pipesim
