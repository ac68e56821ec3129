#pragma once

#include <tbb/enumerable_thread_specific.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "costmodel/cost_model.h"
#include "taskgraph/links/network_cuts.h"
#include "taskgraph/moving/communicators.h"

namespace pipesim {

/// The time of steps that run at the same time: that of the busiest lane or of the slowest step, whichever is
/// longer.
class ConcurrentTime {
 public:
  explicit ConcurrentTime(std::size_t num_lanes) : busy_(num_lanes, 0.0) {}
  void add(const CollectiveTime& step);
  /// Time of all steps added since the last call. Starts afresh.
  Seconds finish();

 private:
  std::vector<double> busy_;
  std::vector<LaneId> touched_;
  double slowest_ = 0, latency_ = 0;
};

/// Prices collectives and sends on one topology. Remembers the results that depend on the group alone. Not
/// thread-safe: see CommunicationPricesByThread.
class CommunicationPrices {
 public:
  /// `groups`: shared by the prices of several threads.
  explicit CommunicationPrices(const CostModel& costs, std::shared_ptr<DeviceGroupTable> groups =
                                                           std::make_shared<DeviceGroupTable>());

  [[nodiscard]] const Topology& topology() const { return costs_.topology(); }
  [[nodiscard]] const CostModel& costs() const { return costs_; }
  [[nodiscard]] const Borders& borders() const { return borders_; }
  /// The groups of devices that communicate.
  [[nodiscard]] DeviceGroupTable& groups() const { return *groups_; }
  [[nodiscard]] int distance(DeviceId a, DeviceId b) const;
  /// See CostModel::collective_time. Valid until the next call.
  [[nodiscard]] const CollectiveTime& time(Collective kind, std::span<const DeviceId> group, Bytes size);
  /// See CostModel::plan_broadcast_gather. Valid until the next call.
  [[nodiscard]] const CollectiveTime& broadcast_gather_time(std::span<const DeviceId> group, Bytes size);
  /// See CostModel::plan_token_exchange. Valid until the next call.
  [[nodiscard]] const CollectiveTime& token_exchange_time(std::span<const DeviceId> group,
                                                          const NodeRoute& route, Bytes size);
  /// Returns about how much memory it takes.
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  /// Scratch for the time of many steps. It is empty when handed out, and the caller must leave it empty.
  [[nodiscard]] ConcurrentTime& concurrent() { return concurrent_; }

 private:
  struct Key {
    Collective kind;
    std::vector<DeviceId> group;
    bool by_broadcast = false;  ///< an all-gather, see CostModel::plan_broadcast_gather
    NodeRoute route = {};       ///< with nodes: an all-to-all, see CostModel::plan_token_exchange
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  const CollectivePlan& plan(Collective kind, std::span<const DeviceId> group);
  const CollectivePlan& collective(Collective kind, std::span<const DeviceId> group,
                                   bool by_broadcast = false, const NodeRoute& route = {});

  const CostModel& costs_;
  CollectivePlanner planner_;
  std::shared_ptr<DeviceGroupTable> groups_;
  Borders borders_;
  std::unordered_map<Key, CollectivePlan, KeyHash> plans_;
  // Sends are the most common. A device sends to few others, mostly neighbours, so a page of these is made
  // when it is needed.
  static constexpr std::size_t kPage = 64;  // devices
  using Page = std::array<std::unique_ptr<const CollectivePlan>, kPage>;
  std::vector<std::vector<std::unique_ptr<Page>>> sends_;  // [from][page of to]
  Bytes bytes_;
  Key key_;  // scratch
  CollectiveTime time_;
  ConcurrentTime concurrent_;
};

using CommunicationPricesByThread = tbb::enumerable_thread_specific<CommunicationPrices>;

}  // namespace pipesim
