#include "taskgraph/moving/communicators.h"

#include <algorithm>
#include <utility>

#include "sim/base/small_vector.h"

namespace pipesim {

DeviceGroupId DeviceGroupTable::intern(std::vector<DeviceId> devices) {
  std::ranges::sort(devices);
  SmallVector<std::int32_t, 16> key;
  for (const DeviceId d : devices) key.push_back(d.value);
  if (const DeviceGroupId* found = ids_.find(key)) return *found;
  const tbb::spin_mutex::scoped_lock lock(mutex_);
  if (const DeviceGroupId* found = ids_.find(key)) return *found;  // another thread was faster
  const DeviceGroupId id(static_cast<std::size_t>(groups_.push_back(std::move(devices)) - groups_.begin()));
  ids_.insert(key, id);
  return id;
}

void DeviceGroupTable::clear() {
  ids_.clear();
  groups_.clear();
}

namespace {

template <class T>
void keep_distinct(std::vector<T>& list) {
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

void CommunicatorList::add(Collective kind, std::span<const DeviceId> group) {
  if (kind == Collective::Send) {
    senders_.insert(senders_.end(), group.begin(), group.end());
  } else {
    found_.push_back(groups_.intern({group.begin(), group.end()}));
  }
}

Communicators CommunicatorList::list() {
  keep_distinct(found_);
  keep_distinct(senders_);
  Communicators needed{std::move(found_), {}};
  if (!senders_.empty()) needed.senders = groups_.intern(std::move(senders_));
  found_.clear();
  senders_.clear();
  needed.groups.shrink_to_fit();
  return needed;
}

void CommunicatorCount::add(const Communicators& needed, std::int32_t times) {
  for (const DeviceGroupId group : needed.groups) add(group, times, needed_, groups_of_);
  if (needed.senders.valid()) add(needed.senders, times, sending_, sends_of_);
}

void CommunicatorCount::add(DeviceGroupId group, std::int32_t times, std::vector<std::int32_t>& needed,
                            std::vector<std::int32_t>& of_device) {
  if (group.index() >= needed.size()) needed.resize(groups_->size(), 0);
  std::int32_t& uses = needed[group.index()];
  const bool before = uses > 0;
  uses += times;
  if (before == (uses > 0)) return;
  for (const DeviceId d : (*groups_)[group]) of_device[d.index()] += times;
}

}  // namespace pipesim
