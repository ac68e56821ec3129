#include "taskgraph/moving/communication_prices.h"

#include <algorithm>
#include <utility>

namespace pipesim {

CommunicationPrices::CommunicationPrices(const CostModel& costs, std::shared_ptr<DeviceGroupTable> groups)
    : costs_(costs),
      planner_(costs),
      groups_(std::move(groups)),
      borders_(costs),
      sends_(costs.topology().num_devices()),
      concurrent_(costs.topology().num_lanes()) {}

int CommunicationPrices::distance(DeviceId a, DeviceId b) const { return topology().distance(a, b); }

std::size_t CommunicationPrices::KeyHash::operator()(const Key& key) const noexcept {
  std::uint64_t h = static_cast<std::uint64_t>(key.kind) + (key.by_broadcast ? 1U << 8 : 0U) +
                    (static_cast<std::uint64_t>(key.route.nodes) << 9) +
                    key.group.size() * 0x9E3779B97F4A7C15ULL;
  for (const DeviceId d : key.group)
    h = (h ^ static_cast<std::uint64_t>(d.value)) * 0xFF51AFD7ED558CCDULL, h ^= h >> 29;
  return h;
}

namespace {

Bytes bytes_of(const CollectivePlan& plan) {
  std::size_t bytes = sizeof(plan);
  for (const CollectiveAlgorithm& a : plan.algorithms()) bytes += a.loads.size() * sizeof(LaneLoad);
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace

const CollectivePlan& CommunicationPrices::collective(Collective kind, std::span<const DeviceId> group,
                                                      bool by_broadcast, const NodeRoute& route) {
  key_.kind = kind;
  key_.by_broadcast = by_broadcast;
  key_.route = route;
  key_.group.assign(group.begin(), group.end());
  const auto it = plans_.find(key_);
  if (it != plans_.end()) return it->second;
  CollectivePlan plan = by_broadcast      ? planner_.plan_broadcast_gather(group)
                        : route.nodes > 0 ? planner_.plan_token_exchange(group, route)
                                          : planner_.plan(kind, group);
  const CollectivePlan& made = plans_.emplace(key_, std::move(plan)).first->second;
  bytes_ += bytes_of(made);
  return made;
}

const CollectivePlan& CommunicationPrices::plan(Collective kind, std::span<const DeviceId> group) {
  if (kind != Collective::Send) return collective(kind, group);
  auto& row = sends_[group[0].index()];
  if (row.empty()) row.resize((topology().num_devices() + kPage - 1) / kPage);
  auto& page = row[group[1].index() / kPage];
  if (!page) page = std::make_unique<Page>(), bytes_ += Bytes(sizeof(Page));
  auto& slot = (*page)[group[1].index() % kPage];
  if (!slot) {
    slot = std::make_unique<const CollectivePlan>(costs_.plan_collective(kind, group));
    bytes_ += bytes_of(*slot);
  }
  return *slot;
}

const CollectiveTime& CommunicationPrices::time(Collective kind, std::span<const DeviceId> group,
                                                Bytes size) {
  plan(kind, group).at(size, time_);
  return time_;
}

const CollectiveTime& CommunicationPrices::broadcast_gather_time(std::span<const DeviceId> group,
                                                                 Bytes size) {
  collective(Collective::AllGather, group, true).at(size, time_);
  return time_;
}

const CollectiveTime& CommunicationPrices::token_exchange_time(std::span<const DeviceId> group,
                                                               const NodeRoute& route, Bytes size) {
  collective(Collective::AllToAll, group, false, route).at(size, time_);
  return time_;
}

void ConcurrentTime::add(const CollectiveTime& step) {
  for (const LaneHold& use : step.lanes) {
    double& busy = busy_[use.lane.index()];
    if (busy == 0) touched_.push_back(use.lane);
    busy += use.hold.value;
  }
  slowest_ = std::max(slowest_, step.duration.value);
  latency_ = std::max(latency_, step.latency.value);
}

Seconds ConcurrentTime::finish() {
  double busiest = 0;
  for (const LaneId lane : touched_) {
    busiest = std::max(busiest, busy_[lane.index()]);
    busy_[lane.index()] = 0;
  }
  const Seconds result(std::max(slowest_, busiest > 0 ? busiest + latency_ : 0.0));
  touched_.clear();
  slowest_ = latency_ = 0;
  return result;
}

}  // namespace pipesim
