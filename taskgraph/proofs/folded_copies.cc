#include "taskgraph/proofs/folded_copies.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace pipesim {
namespace {

void expand_task(const CommunicationTask& t, std::int32_t number, PlanExpansion& out) {
  const auto each_once = [](std::span<const DeviceId> devices, auto add) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::span<const DeviceId> before = devices.first(i);
      if (std::find(before.begin(), before.end(), devices[i]) == before.end()) add(devices[i]);
    }
  };
  each_once(contributors(t.kind, t.group), [&](DeviceId d) {
    out.contributions.push_back({number, d, t.term});
  });
  each_once(receivers(t.kind, t.group), [&](DeviceId d) { out.arrivals.push_back({number, d}); });
  for (const std::int32_t before : t.after) out.waits.push_back({before, number});
}

}  // namespace

// Appends the uses of lanes that stand for others.
void FoldedCopies::append_folded(std::span<const LaneUse> lanes, std::vector<LaneUse>& out) const {
  const auto begin = static_cast<std::ptrdiff_t>(out.size());
  for (const LaneUse use : lanes) {
    const LaneUse first{first_lane_[use.lane.index()], use.hold};
    // A representative comes first of its class, but need not hold the lane itself.
    if (std::find(out.begin() + begin, out.end(), first) == out.end()) out.push_back(first);
  }
}

BoundOperator FoldedCopies::of(const BoundOperator& b, std::span<const std::int32_t> class_of) const {
  BoundOperator f;
  f.op = b.op;
  f.config.degrees = b.config.degrees;
  f.config.replicas = b.config.replicas;
  f.config.ring = b.config.ring;
  f.data_layout = b.data_layout;
  f.gradient_layout = b.gradient_layout;
  f.communicators = b.communicators;
  std::vector<std::int32_t> shard_of_device(b.shard_of_device.size(), -1);
  std::vector<ShardMemory> memory;
  std::vector<std::size_t> shards;
  for (std::size_t k = 0; k < b.config.devices.size(); ++k) {
    const DeviceId d = b.config.devices[k];
    if (!stands(d)) continue;
    shard_of_device[d.index()] = static_cast<std::int32_t>(shards.size());
    shards.push_back(k);
    f.config.devices.push_back(d);
    memory.push_back(b.memory[k]);
  }
  f.shard_of_device = std::move(shard_of_device);
  f.memory = std::move(memory);
  const std::array<PassWork*, 3> folded{&f.forward, &f.backward_input, &f.backward_weight};
  const std::array<const PassWork*, 3> whole{&b.forward, &b.backward_input, &b.backward_weight};
  std::int32_t next_class = 0;
  for (std::size_t p = 0; p < whole.size(); ++p) {
    const std::size_t exchanges = whole[p]->exchanges.size();
    *folded[p] = of(*whole[p], b, f, shards, class_of.first(exchanges), next_class);
    class_of = class_of.subspan(exchanges);
  }
  return f;
}

// `next_class`: the first class of exchanges that no pass before has.
PassWork FoldedCopies::of(const PassWork& whole, const BoundOperator& b, const BoundOperator& folded,
                          std::span<const std::size_t> shards, std::span<const std::int32_t> class_of,
                          std::int32_t& next_class) const {
  PassWork f;
  f.present = whole.present;
  f.num_stages = whole.num_stages;
  const std::size_t num_shards = b.config.devices.size();
  const std::size_t stages = whole.durations.size() / num_shards;
  std::vector<Nanoseconds> durations;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (const std::size_t k : shards) durations.push_back(whole.durations[stage * num_shards + k]);
  }
  f.durations = std::move(durations);
  const std::int32_t first_class = next_class;
  for (std::size_t i = 0; i < whole.exchanges.size(); ++i) {
    if (class_of[i] != next_class) continue;
    ++next_class;
    f.exchanges.push_back(of(whole.exchanges[i], folded));
  }
  const auto number = [&](std::int32_t task) {
    const auto t = static_cast<std::size_t>(task), computed = stages * num_shards;
    if (t >= computed)
      return static_cast<std::int32_t>(stages * shards.size()) + class_of[t - computed] - first_class;
    const DeviceId device = first_of(b.config.devices[t % num_shards]);
    return static_cast<std::int32_t>(t / num_shards * shards.size()) + folded.shard_of_device[device.index()];
  };
  for (const InnerWait w : whole.waits) f.waits.push_back({number(w.before), number(w.after)});
  std::ranges::sort(f.waits);
  f.waits.erase(std::unique(f.waits.begin(), f.waits.end()), f.waits.end());
  return f;
}

// Its group stays, since keys depend on it.
InnerExchange FoldedCopies::of(const InnerExchange& e, const BoundOperator& folded) const {
  InnerExchange f{e.content, e.step, {}, {e.task.kind, e.task.duration, e.task.size, {}, e.task.group}};
  append_folded(e.task.lanes, f.task.lanes);
  for (const DeviceId d : e.task.group) f.shards.push_back(folded.shard_of_device[first_of(d).index()]);
  std::ranges::sort(f.shards);
  f.shards.erase(std::unique(f.shards.begin(), f.shards.end()), f.shards.end());
  return f;
}

CommunicationPlan FoldedCopies::of(const CommunicationPlan& plan,
                                   std::span<const std::int32_t> class_of) const {
  CommunicationPlan f;
  f.target = plan.target;
  f.term_by_term = plan.term_by_term;
  f.communicators = plan.communicators;
  std::copy_if(plan.local.begin(), plan.local.end(), std::back_inserter(f.local),
               [&](DeviceId d) { return stands(d); });
  std::copy_if(plan.received.begin(), plan.received.end(), std::back_inserter(f.received),
               [&](const auto& received) { return stands(received.first); });
  struct Ends {
    std::size_t lanes = 0, group = 0, after = 0;
  };
  std::vector<Ends> ends;
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    if (static_cast<std::size_t>(class_of[i]) != f.tasks.size()) continue;
    const CommunicationTask& t = f.tasks.emplace_back(plan.tasks[i]);
    f.expansion.tasks.push_back({plan.expansion.tasks[i].key, t.duration, nullptr, 0});
    append_folded(t.lanes, f.lane_uses);
    append_group(t.group, f.groups);
    const auto begin = static_cast<std::ptrdiff_t>(f.earlier.size());
    for (const std::int32_t before : t.after) f.earlier.push_back(class_of[static_cast<std::size_t>(before)]);
    std::sort(f.earlier.begin() + begin, f.earlier.end());
    f.earlier.erase(std::unique(f.earlier.begin() + begin, f.earlier.end()), f.earlier.end());
    ends.push_back({f.lane_uses.size(), f.groups.size(), f.earlier.size()});
  }
  Ends begin;
  for (std::size_t i = 0; i < f.tasks.size(); ++i) {
    CommunicationTask& t = f.tasks[i];
    t.lanes = std::span(f.lane_uses).subspan(begin.lanes, ends[i].lanes - begin.lanes);
    t.group = std::span(f.groups).subspan(begin.group, ends[i].group - begin.group);
    t.after = std::span(f.earlier).subspan(begin.after, ends[i].after - begin.after);
    begin = ends[i];
    f.expansion.tasks[i].lanes = t.lanes.data();
    f.expansion.tasks[i].num_lanes = t.lanes.size();
    expand_task(t, static_cast<std::int32_t>(i), f.expansion);
  }
  return f;
}

// The root, or whatever device comes first, stays first; of the other devices one stays for each class.
void FoldedCopies::append_group(std::span<const DeviceId> group, std::vector<DeviceId>& out) const {
  out.push_back(first_of(group.front()));
  const auto begin = static_cast<std::ptrdiff_t>(out.size());
  for (const DeviceId d : group.subspan(1)) {
    if (std::find(out.begin() + begin, out.end(), first_of(d)) == out.end()) out.push_back(first_of(d));
  }
}

OwnedUpdates FoldedCopies::of(const OwnedUpdates& updates) const {
  OwnedUpdates f;
  f.update_of_device.assign(updates.update_of_device.size(), -1);
  for (std::size_t i = 0; i < updates.devices.size(); ++i) {
    const DeviceId d = updates.devices[i];
    if (!stands(d)) continue;
    f.update_of_device[d.index()] = static_cast<std::int32_t>(f.devices.size());
    f.devices.push_back(d);
    f.durations.push_back(updates.durations[i]);
    f.widened.push_back(updates.widened[i]);
    f.intermediates.push_back(updates.intermediates[i]);
  }
  for (std::size_t i = 0; i < updates.holders.size(); ++i) {
    if (!stands(updates.holders[i])) continue;
    f.holders.push_back(updates.holders[i]);
    f.memory.push_back(updates.memory[i]);
    f.elements.push_back(updates.elements[i]);
  }
  return f;
}

}  // namespace pipesim
