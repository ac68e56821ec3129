#pragma once

#include <tbb/concurrent_vector.h>
#include <tbb/spin_mutex.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "costmodel/collectives.h"
#include "sim/base/ids.h"
#include "taskgraph/moving/id_table.h"

namespace pipesim {

using DeviceGroupId = Id<struct DeviceGroupTag>;

/// Groups of devices, each kept once. Any number of threads may use it; call clear() only while none does.
class DeviceGroupTable {
 public:
  /// The devices in any order, each at most once.
  DeviceGroupId intern(std::vector<DeviceId> devices);
  [[nodiscard]] std::span<const DeviceId> operator[](DeviceGroupId id) const { return groups_[id.index()]; }
  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  void clear();

 private:
  tbb::concurrent_vector<std::vector<DeviceId>> groups_;  // ascending; stable addresses
  tbb::spin_mutex mutex_;                                 // held to add a group
  IdTable<DeviceGroupId> ids_;
};

/// What some communication needs communicators for, as NCCL has them: one for each group of devices with
/// collectives among them, and one for plain sends, which all devices that send or receive share.
struct Communicators {
  std::vector<DeviceGroupId> groups;  ///< distinct
  DeviceGroupId senders;              ///< all devices that send or receive; invalid: none do
  [[nodiscard]] bool any() const { return senders.valid() || !groups.empty(); }
  bool operator==(const Communicators&) const = default;
};

/// Lists what tasks need, one after the other.
class CommunicatorList {
 public:
  explicit CommunicatorList(DeviceGroupTable& groups) : groups_(groups) {}
  void add(Collective kind, std::span<const DeviceId> group);
  /// A ring of devices that send to their neighbours has a communicator of its own.
  void add_ring(std::vector<DeviceId> members) { found_.push_back(groups_.intern(std::move(members))); }
  [[nodiscard]] Communicators list();

 private:
  DeviceGroupTable& groups_;
  std::vector<DeviceGroupId> found_;  // some several times
  std::vector<DeviceId> senders_;     // some several times
};

/// Counts the communicators that each device is in. A group counts once, however many need it.
class CommunicatorCount {
 public:
  /// `groups` must outlive it.
  CommunicatorCount(const DeviceGroupTable& groups, std::size_t num_devices)
      : groups_(&groups), groups_of_(num_devices, 0), sends_of_(num_devices, 0) {}
  /// `times`: 1, or −1 to take away what was added before.
  void add(const Communicators& needed, std::int32_t times = 1);
  [[nodiscard]] std::int32_t of(DeviceId device) const {
    return groups_of_[device.index()] + (sends_of_[device.index()] > 0 ? 1 : 0);
  }

 private:
  void add(DeviceGroupId group, std::int32_t times, std::vector<std::int32_t>& needed,
           std::vector<std::int32_t>& of_device);

  const DeviceGroupTable* groups_;
  std::vector<std::int32_t> needed_, sending_;      // by group: by how many
  std::vector<std::int32_t> groups_of_, sends_of_;  // by device: groups among these
};

}  // namespace pipesim
