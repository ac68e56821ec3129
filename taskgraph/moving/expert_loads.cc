#include "taskgraph/moving/expert_loads.h"

#include <algorithm>
#include <cmath>

#include "sim/base/errors.h"

namespace pipesim {

ExpertLoads::ExpertLoads(const OperatorGraph& graph, const Imbalance& imbalance) {
  if (!imbalance.any()) return;
  if (const auto reason = illegal(graph, imbalance)) throw InputError("imbalance: " + *reason);
  imbalance_ = imbalance;
  parts_ = find_expert_parts(graph);
}

TokenLoad ExpertLoads::of(OperatorId id, const Operator& op, const ParallelConfig& config) const {
  const auto [experts, slots] = factors(id);
  if (experts < 0) return {};
  const ShardGrid grid(op, config);
  if (!grid.split(experts)) return {};
  const std::int64_t all = op.factors[static_cast<std::size_t>(experts)].size;
  std::vector<Range> ranges;
  double most = 1;
  for (std::int64_t k = 0; k < grid.num_shards(); ++k) {
    grid.ranges(k, ranges);
    const Range own = ranges[static_cast<std::size_t>(experts)];
    most = std::max(most, load_of(imbalance_, own.begin, own.end, all));
  }
  return {most, slots};
}

double ExpertLoads::of(std::int32_t dimension, const Layout& layout) const {
  const auto at = static_cast<std::size_t>(dimension);
  std::int64_t all = 0;
  for (const Box& box : layout.boxes()) all = std::max(all, box[at].end);
  double most = 1;
  for (const Box& box : layout.boxes())
    most = std::max(most, load_of(imbalance_, box[at].begin, box[at].end, all));
  return most;
}

std::int64_t loaded(std::int64_t mean, double load) {
  if (load == 1) return mean;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(mean) * load - 1e-6));
}

}  // namespace pipesim
