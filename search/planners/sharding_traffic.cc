#include "search/planners/sharding_traffic.h"

namespace pipesim {

ShardingTraffic sharding_traffic(const OperatorGraph& graph, const PlanOptions& options) {
  const StateSharding& sharding = options.state_sharding;
  if (!sharding.any()) return {};
  double own = 0, gradients = 0, gathered = 0;  // bytes
  for (const Tensor& t : graph.tensors()) {
    if (t.kind != TensorKind::Weight) continue;
    if (t.frozen) {
      if (sharding.gathers_to_use()) gathered += t.bytes() / Bytes(1);
      continue;
    }
    const auto elements = static_cast<double>(t.elements());
    own += elements * static_cast<double>(bytes_per_element(t.type));
    gradients += elements * static_cast<double>(bytes_per_element(options.gradient_type));
    gathered += elements * static_cast<double>(bytes_per_element(sharding.gather_type(t.type)));
  }
  if (own == 0) return {};
  const double reduce = gradients / own / 2, gather = gathered / own / 2;
  ShardingTraffic traffic{0, 0, sharding.gathers_to_use()};
  (sharding.each_microbatch() ? traffic.each : traffic.once) += reduce;
  traffic.each += sharding.gathers_each_microbatch() * gather;
  if (!sharding.gathers_before_use()) traffic.once += gather;
  return traffic;
}

}  // namespace pipesim
