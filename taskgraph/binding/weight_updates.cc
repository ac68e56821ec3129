#include "taskgraph/binding/weight_updates.h"

#include <utility>

#include "sim/base/small_vector.h"

namespace pipesim {

const OwnedUpdates& WeightUpdates::of(const WeightHomes& homes, DataType type) {
  SmallVector<std::int32_t, 16> key{static_cast<std::int32_t>(type)};
  for (const LayoutId home : homes.whole) key.push_back(home.value);
  for (const LayoutId home : homes.state) key.push_back(home.value);
  if (const OwnedUpdates* const* found = by_homes_.find(key)) return **found;
  OwnedUpdates made = plan(homes, type);
  const tbb::spin_mutex::scoped_lock lock(mutex_);
  if (const OwnedUpdates* const* found = by_homes_.find(key)) return **found;
  kept_.push_back({homes, type, std::move(made)});
  const OwnedUpdates& work = kept_.back().work;
  by_homes_.insert(key, &work);
  return work;
}

std::vector<std::int64_t> WeightUpdates::elements_by_device(std::span<const LayoutId> layouts) const {
  std::vector<std::int64_t> elements(costs_->topology().num_devices(), 0);
  for (const LayoutId id : layouts) {
    const Layout& layout = layouts_[id];
    for (const LayoutEntry& e : layout.entries()) elements[e.device.index()] += layout.box(e).elements();
  }
  return elements;
}

// By device. Weights that are gathered to be used are not sliced.
std::vector<Seconds> WeightUpdates::host_times(const WeightHomes& homes) const {
  const HostTimes& host = costs_->runtime().host;
  std::vector<Seconds> times(costs_->topology().num_devices(),
                             host.weight * static_cast<double>(homes.whole.size()));
  if (host.slice.value == 0 || options_.state_sharding.gathers_to_use()) return times;
  for (std::size_t w = 0; w < homes.state.size(); ++w) {
    if (homes.state[w] == homes.whole[w]) continue;
    const std::vector<std::int64_t> whole = elements_by_device(std::span(&homes.whole[w], 1)),
                                    state = elements_by_device(std::span(&homes.state[w], 1));
    for (std::size_t d = 0; d < times.size(); ++d) {
      if (state[d] == 0) continue;
      const std::int64_t copies = (whole[d] + state[d] / 2) / state[d];  // rounded
      times[d] += host.slice * static_cast<double>(copies);
    }
  }
  return times;
}

OwnedUpdates WeightUpdates::plan(const WeightHomes& homes, DataType type) const {
  OwnedUpdates work;
  const std::vector<std::int64_t> whole = elements_by_device(homes.whole),
                                  state = homes.state.empty() ? whole : elements_by_device(homes.state);
  const StateSharding& sharding = options_.state_sharding;
  const DataType kept = sharding.kept_type(type);
  const auto memory = [&](std::int64_t elements) {
    return CostModel::weight_memory(elements, kept, options_.gradient_type, options_.optimizer);
  };
  const std::vector<Seconds> host = host_times(homes);
  work.update_of_device.assign(state.size(), -1);
  for (std::size_t d = 0; d < state.size(); ++d) {
    const DeviceId device(d);
    if (whole[d] > 0) {
      work.holders.push_back(device);
      work.memory.push_back({memory(sharding.gathers_to_use() ? state[d] : whole[d]).weights,
                             memory(sharding.each_microbatch() ? state[d] : whole[d]).gradients,
                             memory(state[d]).optimizer_state});
    }
    if (state[d] == 0) continue;
    work.update_of_device[d] = static_cast<std::int32_t>(work.devices.size());
    work.devices.push_back(device);
    const Seconds update = costs_->update_time(state[d], kept, options_.optimizer, device);
    work.durations.push_back(to_nanoseconds(std::max(update, host[d])));
  }
  return work;
}

void WeightUpdates::reprice(const CostModel& costs, bool again) {
  costs_ = &costs;
  if (!again) return;
  for (Kept& kept : kept_) kept.work.durations = plan(kept.homes, kept.type).durations;
}

void WeightUpdates::clear() {
  by_homes_.clear();
  kept_.clear();
}

}  // namespace pipesim
