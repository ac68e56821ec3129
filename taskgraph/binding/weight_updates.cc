#include "taskgraph/binding/weight_updates.h"

#include <utility>

#include "sim/base/small_vector.h"

namespace pipesim {

const OwnedUpdates& WeightUpdates::of(std::span<const LayoutId> homes, DataType type) {
  SmallVector<std::int32_t, 16> key{static_cast<std::int32_t>(type)};
  for (const LayoutId home : homes) key.push_back(home.value);
  if (const OwnedUpdates* const* found = by_homes_.find(key)) return **found;
  OwnedUpdates made = plan(homes, type);
  const tbb::spin_mutex::scoped_lock lock(mutex_);
  if (const OwnedUpdates* const* found = by_homes_.find(key)) return **found;
  by_homes_.insert(key, &kept_.emplace_back(std::move(made)));
  return kept_.back();
}

OwnedUpdates WeightUpdates::plan(std::span<const LayoutId> homes, DataType type) const {
  OwnedUpdates work;
  std::vector<std::int64_t> elements(costs_.topology().num_devices(), 0);
  for (const LayoutId id : homes) {
    const Layout& home = layouts_[id];
    for (const LayoutEntry& e : home.entries()) elements[e.device.index()] += home.box(e).elements();
  }
  work.update_of_device.assign(elements.size(), -1);
  for (std::size_t d = 0; d < elements.size(); ++d) {
    if (elements[d] == 0) continue;
    const DeviceId device(d);
    work.update_of_device[d] = static_cast<std::int32_t>(work.devices.size());
    work.devices.push_back(device);
    work.durations.push_back(
        to_nanoseconds(costs_.update_time(elements[d], type, options_.optimizer, device)));
    work.memory.push_back(
        CostModel::weight_memory(elements[d], type, options_.gradient_type, options_.optimizer));
  }
  return work;
}

void WeightUpdates::clear() {
  by_homes_.clear();
  kept_.clear();
}

}  // namespace pipesim
