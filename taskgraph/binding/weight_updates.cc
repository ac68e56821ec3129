#include "taskgraph/binding/weight_updates.h"

#include <algorithm>
#include <utility>

namespace pipesim {

WeightUpdates::WeightUpdates(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                             const LayoutTable& layouts)
    : costs_(&costs), options_(options), layouts_(layouts) {
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const DataType kept = options.state_sharding.kept_type(graph.tensors()[t].type);
    const bool matters = graph.tensors()[t].kind == TensorKind::Weight && knows_shapes(options.optimizer);
    const WeightShape shape = matters ? shape_of_weight(graph, TensorId(t), kept) : kept;
    const auto known = std::ranges::find(shapes_, shape);
    shape_of_weight_.push_back(static_cast<std::int32_t>(known - shapes_.begin()));
    if (known == shapes_.end()) shapes_.push_back(shape);
  }
}

const OwnedUpdates& WeightUpdates::of(const WeightHomes& homes, std::span<const TensorId> weights) {
  ShapeNumbers shapes;
  for (const TensorId w : weights) shapes.push_back(shape_of_weight_[w.index()]);
  SmallVector<std::int32_t, 16> key(shapes.begin(), shapes.end());
  for (const LayoutId home : homes.whole) key.push_back(home.value);
  for (const LayoutId home : homes.state) key.push_back(home.value);
  if (const OwnedUpdates* const* found = by_homes_.find(key)) return **found;
  OwnedUpdates made = plan(homes, shapes);
  const tbb::spin_mutex::scoped_lock lock(mutex_);
  if (const OwnedUpdates* const* found = by_homes_.find(key)) return **found;
  kept_.push_back({homes, shapes, std::move(made)});
  const OwnedUpdates& work = kept_.back().work;
  by_homes_.insert(key, &work);
  return work;
}

std::vector<std::int64_t> WeightUpdates::elements_by_device(LayoutId id) const {
  std::vector<std::int64_t> elements(costs_->topology().num_devices(), 0);
  const Layout& layout = layouts_[id];
  for (const LayoutEntry& e : layout.entries()) elements[e.device.index()] += layout.box(e).elements();
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
    const std::vector<std::int64_t> whole = elements_by_device(homes.whole[w]),
                                    state = elements_by_device(homes.state[w]);
    for (std::size_t d = 0; d < times.size(); ++d) {
      if (state[d] == 0) continue;
      const std::int64_t copies = (whole[d] + state[d] / 2) / state[d];  // rounded
      times[d] += host.slice * static_cast<double>(copies);
    }
  }
  return times;
}

OwnedUpdates WeightUpdates::plan(const WeightHomes& homes, const ShapeNumbers& shapes) const {
  OwnedUpdates work;
  const StateSharding& sharding = options_.state_sharding;
  const auto shape_of = [&](std::size_t w) -> const WeightShape& {
    return shapes_[static_cast<std::size_t>(shapes[w])];
  };
  const std::size_t devices = costs_->topology().num_devices();
  std::vector<std::int64_t> held(devices, 0);
  std::vector<WeightMemory> memory(devices);
  std::vector<Bytes> widened(devices), intermediates(devices);
  const Runtime& runtime = costs_->runtime();
  const bool of_all = holds_intermediates_of_all(options_.optimizer, runtime);
  std::vector<UpdatedWeights> updated(devices, UpdatedWeights(options_.optimizer, shape_of(0).type));
  for (std::size_t w = 0; w < homes.whole.size(); ++w) {
    const std::vector<std::int64_t> whole = elements_by_device(homes.whole[w]),
                                    state = homes.state.empty() ? whole : elements_by_device(homes.state[w]);
    for (std::size_t d = 0; d < devices; ++d) {
      const auto bytes = [&](std::int64_t elements) {
        return CostModel::weight_memory(elements, shape_of(w), options_.gradient_type, options_.optimizer);
      };
      held[d] += whole[d];
      memory[d].weights += bytes(sharding.gathers_to_use() ? state[d] : whole[d]).weights;
      memory[d].gradients += bytes(sharding.each_microbatch() ? state[d] : whole[d]).gradients;
      memory[d].optimizer_state += bytes(state[d]).optimizer_state;
      widened[d] += widened_gradients(state[d], shape_of(w).type, options_.gradient_type, options_.optimizer,
                                      runtime.step_gradients, sharding.any());
      const Bytes more =
          optimizer_intermediates(state[d], shape_of(w), options_.optimizer, runtime.optimizer_kernel);
      intermediates[d] = of_all ? intermediates[d] + more : std::max(intermediates[d], more);
      updated[d].add(state[d], shape_of(w));
    }
  }
  const std::vector<Seconds> host = host_times(homes);
  work.update_of_device.assign(devices, -1);
  for (std::size_t d = 0; d < devices; ++d) {
    const DeviceId device(d);
    if (held[d] > 0) {
      work.holders.push_back(device);
      work.memory.push_back(memory[d]);
      work.elements.push_back(held[d]);
    }
    if (updated[d].elements == 0) continue;
    work.update_of_device[d] = static_cast<std::int32_t>(work.devices.size());
    work.devices.push_back(device);
    work.widened.push_back(widened[d]);
    work.intermediates.push_back(intermediates[d]);
    work.durations.push_back(to_nanoseconds(std::max(costs_->update_time(updated[d], device), host[d])));
  }
  return work;
}

void WeightUpdates::reprice(const CostModel& costs, bool again) {
  costs_ = &costs;
  if (!again) return;
  for (Kept& kept : kept_) kept.work.durations = plan(kept.homes, kept.shapes).durations;
}

void WeightUpdates::clear() {
  by_homes_.clear();
  kept_.clear();
}

}  // namespace pipesim
