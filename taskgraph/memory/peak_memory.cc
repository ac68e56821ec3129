#include "taskgraph/memory/peak_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/out_of_memory.h"
#include "sim/base/suggest.h"
#include "taskgraph/memory/runtime_buffers.h"

namespace pipesim {

std::string_view name_of(MemoryCategory category) {
  constexpr std::array<std::string_view, kMemoryCategories> names{"weights",          "gradients",
                                                                  "optimizer state",  "activations",
                                                                  "transfer buffers", "activation gradients",
                                                                  "stashed weights",  "gathered weights"};
  return names[static_cast<std::size_t>(category)];
}

namespace {

// Sorts times into ranges, of a few changes each where they are spread evenly, and then each range.
void sort_by_time(std::vector<MemoryChange>& changes) {
  constexpr std::size_t kFew = 64, kOfRange = 4;
  const auto by_time = [](const MemoryChange& a, const MemoryChange& b) { return a.time < b.time; };
  const auto [first, last] = std::minmax_element(changes.begin(), changes.end(), by_time);
  if (changes.size() < kFew || first->time == last->time) {
    std::sort(changes.begin(), changes.end(), by_time);
    return;
  }
  const Nanoseconds begin = first->time;
  const std::size_t ranges = changes.size() / kOfRange;
  const double per_nanosecond = static_cast<double>(ranges - 1) / static_cast<double>(last->time - begin);
  const auto range_of = [&](const MemoryChange& c) {
    return static_cast<std::size_t>(static_cast<double>(c.time - begin) * per_nanosecond);
  };
  std::vector<std::uint32_t> end(changes.size() / kOfRange + 1, 0);  // by range
  for (const MemoryChange& c : changes) ++end[range_of(c)];
  for (std::size_t r = 1; r < end.size(); ++r) end[r] += end[r - 1];
  std::vector<MemoryChange> sorted(changes.size(), MemoryChange(0, 0, {}));
  for (const MemoryChange& c : changes) sorted[--end[range_of(c)]] = c;
  // Each range now begins where its end was counted.
  for (std::size_t r = 0; r + 1 < end.size(); ++r)
    std::sort(sorted.begin() + end[r], sorted.begin() + end[r + 1], by_time);
  changes.swap(sorted);
}

// Changes of one moment need no order among them: what is freed then comes first, so the most is held before
// all of them or after all of them.
DeviceMemory peak_of(std::vector<MemoryChange>& changes, const WeightMemory& permanent) {
  sort_by_time(changes);
  std::array<Bytes, kMemoryCategories> now{permanent.weights, permanent.gradients, permanent.optimizer_state};
  Bytes sum = permanent.weights + permanent.gradients + permanent.optimizer_state;
  DeviceMemory memory{sum, 0, now};
  for (std::size_t i = 0; i < changes.size();) {
    const Nanoseconds time = changes[i].time;
    for (; i < changes.size() && changes[i].time == time; ++i) {
      now[changes[i].category()] += Bytes(changes[i].bytes());
      sum += Bytes(changes[i].bytes());
    }
    if (sum > memory.peak) memory = {sum, time, now};
  }
  return memory;
}

}  // namespace

namespace {

void add_all_versions(const ExpandedStrategy& expanded, std::vector<Bytes>& bytes) {
  const PlanContents& contents = expanded.contents();
  contents.for_each_update(expanded.strategy(), [&](OperatorId op, const OwnedUpdates& work) {
    const std::int64_t older = contents.versions().copies(contents.stage_of(op)) - 1;
    for (std::size_t k = 0; k < work.devices.size(); ++k)
      bytes[work.devices[k].index()] += older * work.memory[k].weights;
  });
}

void add_of_steps(const ExpandedStrategy& expanded, std::vector<Bytes>& bytes) {
  expanded.contents().for_each_update(expanded.strategy(), [&](OperatorId, const OwnedUpdates& work) {
    for (std::size_t k = 0; k < work.devices.size(); ++k)
      bytes[work.devices[k].index()] += work.widened[k] + work.intermediates[k];
  });
}

// Adds the gradients of a weight in all microbatches, before they are reduced to the parts that devices keep.
void add_made_gradients(const ExpandedStrategy& expanded, const Wiring& wiring, std::int64_t microbatches,
                        std::vector<Bytes>& bytes) {
  const PlanContents& contents = expanded.contents();
  const std::int64_t element = bytes_per_element(contents.options().gradient_type);
  for (const LayoutId term : expanded.terms_of(wiring)) {
    const Layout& made = contents.layouts()[term];
    for (const LayoutEntry& e : made.entries())
      bytes[e.device.index()] += Bytes(microbatches * element * made.box(e).elements());
  }
}

}  // namespace

// Microbatches that come after those of all ways need the same.
CommunicatorCount communicators(const ExpandedStrategy& expanded) {
  const PlanContents& contents = expanded.contents();
  CommunicatorCount count(contents.device_groups(), contents.costs().topology().num_devices());
  for (std::int32_t way = 0; way < contents.ways(); ++way) {
    for (const BoundOperator* b : contents.strategy_of(way, expanded.strategy())) count.add(b->communicators);
  }
  for (const Wiring& w : expanded.wirings()) {
    if (w.microbatch < contents.ways()) count.add(w.plan->communicators);
  }
  return count;
}

std::vector<Bytes> allocated_memory(const ExpandedStrategy& expanded) {
  const PlanContents& contents = expanded.contents();
  const BoundStrategy& strategy = expanded.strategy();
  std::vector<Bytes> bytes(contents.costs().topology().num_devices());
  const std::vector<WeightMemory> permanent = contents.permanent_memory(strategy);
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    bytes[d] = permanent[d].weights + permanent[d].gradients + permanent[d].optimizer_state;
  }
  const std::int64_t microbatches = std::max(contents.options().microbatches, expanded.microbatches());
  const std::int32_t ways = contents.ways();
  const auto of_way = [&](std::int32_t way) { return (microbatches - way + ways - 1) / ways; };
  for (std::int32_t way = 0; way < ways; ++way) {
    const BoundStrategy& used = contents.strategy_of(way, strategy);
    for (std::size_t i = 0; i < used.size(); ++i) {
      const BoundOperator& b = *used[i];
      const std::int64_t runs = contents.recomputation().again(OperatorId(i)) ? 2 : 1;
      for (std::size_t k = 0; k < b.memory.size(); ++k) {
        const ShardMemory& m = b.memory[k];
        bytes[b.config.devices[k].index()] +=
            of_way(way) * (runs * (m.outputs + m.saved + m.forward_blocks + m.in_forward()) + m.input_copy +
                           m.gradient_copy + m.input_gradients + m.backward_blocks + m.in_backward());
      }
    }
  }
  if (contents.versions().several()) add_all_versions(expanded, bytes);
  add_of_steps(expanded, bytes);
  const std::vector<Bytes> of_runtime = most_of_runtime_buffers(expanded);
  for (std::size_t d = 0; d < bytes.size(); ++d) bytes[d] += of_runtime[d];
  const bool gradients_move = contents.options().state_sharding.each_microbatch();
  for (const Wiring& w : expanded.wirings()) {
    if (w.microbatch < 0 || w.microbatch >= ways) continue;  // others are alike
    if (w.kind == TaskKind::GradientSync) {                  // else reduced in place
      if (gradients_move) add_made_gradients(expanded, w, microbatches, bytes);
      continue;
    }
    if (w.kind == TaskKind::WeightGather) {
      for (const auto& [device, copy] : gathered_copies(expanded, w))
        bytes[device.index()] += of_way(w.microbatch) * copy;
      continue;
    }
    for (const auto& [device, received] : w.plan->received)
      bytes[device.index()] += of_way(w.microbatch) * received;
  }
  return bytes;
}

std::vector<DeviceMemory> peak_memory(const ExpandedStrategy& expanded, const Timeline& timeline) {
  const PlanContents& contents = expanded.contents();
  const auto too_many = [&] {
    return out_of_memory(fmt::format("following the memory of {} devices through {} tasks",
                                     contents.costs().topology().num_devices(), timeline.start.size()),
                         "Take fewer microbatches (--microbatches) or devices");
  };
  return with_memory(too_many, [&] {
    const std::vector<WeightMemory> permanent = contents.permanent_memory(expanded.strategy());
    MemoryChanges all = memory_changes(
        expanded, {timeline, expanded.microbatches(), expanded.tasks_of_one_microbatch(), expanded.block()});
    const CommunicatorCount groups = communicators(expanded);
    std::vector<DeviceMemory> peaks;
    for (std::size_t d = 0; d < permanent.size(); ++d) {
      peaks.push_back(peak_of(all[d], permanent[d]));
      peaks.back().communicators = groups.of(DeviceId(d));
    }
    return peaks;
  });
}

namespace {

// By device: what the microbatches that come in addition keep between their ways forward and back.
MemoryChanges kept_in_addition(const ExpandedStrategy& expanded, const TaskTimes& few,
                               const SteadyState& steady) {
  const SteadyWindow &up = steady.windows.front(), &down = steady.windows.back();
  const MemoryChanges of_window = memory_changes(expanded, {few.timeline, up.microbatches, few.of_one});
  MemoryChanges kept;
  for (const std::vector<MemoryChange>& changes : of_window) {
    std::array<std::int64_t, kMemoryCategories> bytes{};
    for (const MemoryChange& c : changes) {
      if (c.time <= up.end) bytes[c.category()] += steady.repeats * c.bytes();
    }
    std::vector<MemoryChange>& all = kept.emplace_back();
    for (std::size_t c = 0; c < kMemoryCategories; ++c) {
      if (bytes[c] == 0) continue;
      all.push_back({up.begin, bytes[c], static_cast<MemoryCategory>(c)});
      all.push_back({down.end, -bytes[c], static_cast<MemoryCategory>(c)});
    }
  }
  return kept;
}

}  // namespace

// With one window, what a device holds at a moment of the few's timeline it holds whenever the window comes
// again. With two, microbatches that come in addition keep their part all the while that the numbers of
// others are larger by theirs, which is where a device holds most.
std::vector<DeviceMemory> peak_memory(const ExpandedStrategy& expanded, const TaskTimes& few,
                                      const SteadyState& steady) {
  const std::vector<WeightMemory> permanent = expanded.contents().permanent_memory(expanded.strategy());
  MemoryChanges all = memory_changes(expanded, few);
  MemoryChanges kept(permanent.size());
  if (steady.windows.size() > 1) kept = kept_in_addition(expanded, few, steady);
  const CommunicatorCount groups = communicators(expanded);
  std::vector<DeviceMemory> peaks;
  for (std::size_t d = 0; d < permanent.size(); ++d) {
    std::vector<MemoryChange>& changes = all[d];
    changes.insert(changes.end(), kept[d].begin(), kept[d].end());
    DeviceMemory& peak = peaks.emplace_back(peak_of(changes, permanent[d]));
    const SteadyWindow first = steady.windows.empty() ? SteadyWindow() : steady.windows.front();
    const bool grows = !kept[d].empty() && peak.when >= first.begin && peak.when < first.end;
    peak.communicators = groups.of(DeviceId(d));
    peak.when = grows ? peak.when + steady.repeats * first.length() : steady.time_of(peak.when);
  }
  return peaks;
}

namespace {

Bytes shortage_of(const std::vector<DeviceMemory>& peaks, const Topology& topology, std::size_t device) {
  const DeviceMemory& of = peaks[device];
  return std::max(Bytes(0), of.peak - topology.usable_memory(DeviceId(device), of.communicators));
}

}  // namespace

Bytes largest_shortage(const std::vector<DeviceMemory>& peaks, const Topology& topology) {
  Bytes most;
  for (std::size_t d = 0; d < peaks.size(); ++d) most = std::max(most, shortage_of(peaks, topology, d));
  return most;
}

std::optional<std::string> memory_shortage(const std::vector<DeviceMemory>& peaks, const Topology& topology) {
  std::size_t worst = 0, lacking = 0;
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    const Bytes lacks = shortage_of(peaks, topology, d);
    if (lacks.value > 0) ++lacking;
    if (lacks > shortage_of(peaks, topology, worst)) worst = d;
  }
  if (lacking == 0) return std::nullopt;
  const DeviceKind& kind = topology.kind(DeviceId(worst));
  const std::int32_t groups = kind.memory_overhead.communicator.value > 0 ? peaks[worst].communicators : 0;
  const Bytes has = kind.memory_overhead.is_none() ? kind.memory : kind.memory_overhead.installed,
              left = kind.memory_overhead.usable(kind.memory, groups),
              usable = topology.usable_memory(DeviceId(worst), groups);
  std::string text = fmt::format("{} needs {}, has {}", topology.device(DeviceId(worst)).name,
                                 pretty(peaks[worst].peak), pretty(has));
  if (left < has) {
    text += fmt::format(", of which frameworks{} {}",
                        groups == 0 ? "" : fmt::format(" and {}", counted(groups, "communicator")),
                        left.value > 0 ? "leave " + pretty(left) : "leave nothing");
  }
  if (usable < left)
    text += fmt::format("{} less a margin of {}", left < has ? "," : "", pretty(left - usable));
  const std::size_t more = lacking - 1;
  return more == 0 ? text : fmt::format("{} (and {} more device{})", text, more, more == 1 ? "" : "s");
}

Bytes memory_overflow(const std::vector<DeviceMemory>& peaks, const Topology& topology) {
  Bytes sum;
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    sum += shortage_of(peaks, topology, d);
  }
  return sum;
}

}  // namespace pipesim
