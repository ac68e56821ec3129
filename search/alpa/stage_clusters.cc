#include "search/alpa/stage_clusters.h"

#include <algorithm>
#include <map>

#include "search/baselines/placement.h"
#include "search/pipelines/layer_clusters.h"

namespace pipesim {

StageClusters::StageClusters(const OperatorGraph& graph, const CostModel& costs, std::int32_t clusters,
                             const std::string& schedule)
    : topology_(costs.topology()) {
  const LayerGraph layers = layers_of(graph, costs, DeviceId(0));
  cluster_of_ = cluster_layers(layers, clusters, inseparable_layers(graph, layers, schedule));
  for (std::int32_t c = 0; c <= cluster_of_.back(); ++c) {
    const auto begin =
        static_cast<std::int32_t>(std::ranges::upper_bound(cluster_of_, c) - cluster_of_.begin());
    leaving_.push_back(read_from_before(layers, begin, static_cast<std::int32_t>(layers.size())));
  }
}

Seconds StageClusters::transfer_time(std::int64_t devices, std::size_t last, NextStage next) const {
  const auto all = static_cast<std::int64_t>(topology_.num_devices());
  if (last + 1 == size() || devices >= all) return Seconds(0);
  const std::int64_t node = smallest_node(topology_);
  if (next == NextStage::OtherNode && topology_.num_nodes() > 1) return to_other_node(devices, last);
  const std::int64_t ways = devices < node ? devices : devices / node;
  const Route route = topology_.route(DeviceId(0), DeviceId(static_cast<std::size_t>(devices)));
  return 2.0 * ((1 / static_cast<double>(ways)) * (leaving_[last] / route.bandwidth) + route.latency);
}

Seconds StageClusters::to_other_node(std::int64_t devices, std::size_t last) const {
  const auto all = static_cast<std::int64_t>(topology_.num_devices());
  const std::int64_t first = std::max(devices, smallest_node(topology_)), behind = all - first;
  if (behind <= 0) return transfer_time(devices, last, NextStage::InNode);
  std::vector<Route> routes;
  std::map<LaneId, double> users;
  for (std::int64_t d = 0; d < devices; ++d) {
    const std::int64_t to = first + d % behind;
    routes.push_back(
        topology_.route(DeviceId(static_cast<std::size_t>(d)), DeviceId(static_cast<std::size_t>(to))));
    for (const LaneId lane : routes.back().lanes) users[lane] += 1;
  }
  const double part = 1 / static_cast<double>(devices);
  Seconds longest;
  for (const Route& route : routes) {
    double most = 1;
    for (const LaneId lane : route.lanes) most = std::max(most, users[lane]);
    longest = std::max(longest, part * most * (leaving_[last] / route.bandwidth) + route.latency);
  }
  return 2.0 * longest;
}

std::vector<StageOption> StageClusters::across_nodes(std::vector<StageOption> options) const {
  for (StageOption& o : options) {
    const auto last = static_cast<std::size_t>(o.last);
    o.time += transfer_time(o.devices, last, NextStage::OtherNode) -
              transfer_time(o.devices, last, NextStage::InNode);
    o.time = std::max(o.time, Seconds(0));
  }
  return options;
}

std::int32_t StageClusters::communicators(std::int64_t devices, std::int64_t tensor) const {
  return (tensor > 1 ? 1 : 0) + (tensor < devices ? 1 : 0) +
         (static_cast<std::size_t>(devices) < topology_.num_devices() ? 1 : 0);
}

}  // namespace pipesim
