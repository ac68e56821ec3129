#include "costmodel/links/hops.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/base/errors.h"

namespace pipesim {

LinkBundles::LinkBundles(const Topology& topology) : bundle_of_(topology.num_lanes(), -1) {
  std::map<std::tuple<std::int32_t, std::int32_t, bool>, std::int32_t> bundle_between;
  auto add = [&](std::int32_t from, std::int32_t to, bool duplex, LaneId lane) {
    auto [entry, fresh] =
        bundle_between.try_emplace({from, to, duplex}, static_cast<std::int32_t>(bundles_.size()));
    if (fresh) bundles_.emplace_back();
    bundles_[entry->second].push_back(lane);
    bundle_of_[lane.index()] = entry->second;
  };
  for (const Link& link : topology.parts().links) {
    if (link.duplex) {
      add(link.a, link.b, true, link.forward);
      add(link.b, link.a, true, link.backward);
    } else {
      add(std::min(link.a, link.b), std::max(link.a, link.b), false, link.forward);
    }
  }
  for (auto& bundle : bundles_) std::sort(bundle.begin(), bundle.end());
}

std::span<const LaneId> LinkBundles::parallel_to(LaneId lane) const {
  std::int32_t bundle = bundle_of_.at(lane.index());
  if (bundle < 0) throw InternalError("route over a lane that is no link");
  return bundles_[bundle];
}

double total_bandwidth(const Topology& topology, std::span<const LaneId> lanes) {
  double total = 0;
  for (LaneId lane : lanes) total += topology.lane_bandwidth(lane).value;
  return total;
}

const Hop& Hops::between(DeviceId from, DeviceId to) {
  auto key = static_cast<std::uint64_t>(from.value) << 32 | static_cast<std::uint32_t>(to.value);
  auto [entry, fresh] = known_.try_emplace(key);
  Hop& hop = entry->second;
  if (!fresh) return hop;
  Route route = topology_.route(from, to);
  std::size_t lanes = 0;
  for (LaneId lane : route.lanes) lanes += bundles_.parallel_to(lane).size();
  hop.lanes.reserve(lanes);
  for (LaneId lane : route.lanes) {
    std::span<const LaneId> parallel = bundles_.parallel_to(lane);
    double total = total_bandwidth(topology_, parallel);
    for (LaneId one : parallel) hop.lanes.push_back({met(one), topology_.lane_bandwidth(one).value / total});
  }
  hop.latency = route.latency.value;
  hop.crosses_nodes = topology_.device(from).node != topology_.device(to).node;
  return hop;
}

MetLane Hops::met(LaneId lane) {
  auto [entry, fresh] = numbers_.try_emplace(lane, bandwidths_.size());
  if (fresh) bandwidths_.push_back(topology_.lane_bandwidth(lane).value);
  return {lane, entry->second};
}

void LoadTable::add(const Hop& hop, double amount) {
  for (const LaneShare& part : hop.lanes) {
    if (load_.size() <= part.lane.number) load_.resize(part.lane.number + 1, 0);
    double& load = load_[part.lane.number];
    if (load == 0 && amount > 0) touched_.push_back(part.lane);
    load += amount * part.share;
  }
}

void LoadTable::clear() {
  for (MetLane lane : touched_) load_[lane.number] = 0;
  touched_.clear();
}

}  // namespace pipesim
