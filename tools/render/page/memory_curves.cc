#include "tools/render/page/memory_curves.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "taskgraph/memory/memory_changes.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;
using Held = std::array<Bytes, kMemoryCategories>;

Bytes held_sum(const Held& held) {
  Bytes sum;
  for (const Bytes b : held) sum += b;
  return sum;
}

Held permanent_part(const WeightMemory& permanent) {
  Held held{};
  held[static_cast<std::size_t>(MemoryCategory::Weights)] = permanent.weights;
  held[static_cast<std::size_t>(MemoryCategory::Gradients)] = permanent.gradients;
  held[static_cast<std::size_t>(MemoryCategory::OptimizerState)] = permanent.optimizer_state;
  return held;
}

void append_step(MemoryCurve& curve, Nanoseconds time, const Held& held) {
  curve.time.push_back(time);
  for (std::size_t c = 0; c < kMemoryCategories; ++c) curve.bytes[c].push_back(held[c]);
}

// Keeps the fullest moment of each part of the time.
class FullestMoments {
 public:
  FullestMoments(MemoryCurve& curve, Nanoseconds end, std::size_t parts)
      : curve_(curve), end_(std::max<Nanoseconds>(1, end)), parts_(static_cast<Nanoseconds>(parts)) {}

  // What is held from a moment on; moments ascend.
  void hold(Nanoseconds time, const Held& held) {
    const Nanoseconds part = std::min(parts_ - 1, time * parts_ / end_);
    while (part_ < part) close();
    if (!any_ || held_sum(held) > held_sum(fullest_)) fullest_ = held;
    any_ = true;
    now_ = held;
  }
  void finish() {
    while (part_ < parts_) close();
  }

 private:
  void close() {
    append_step(curve_, part_ * end_ / parts_, fullest_);
    fullest_ = now_;
    ++part_;
  }
  MemoryCurve& curve_;
  Nanoseconds end_, parts_, part_ = 0;
  Held fullest_{}, now_{};
  bool any_ = false;
};

void follow_changes(MemoryCurve& curve, std::vector<MemoryChange>& changes, const Held& permanent,
                    Nanoseconds end, std::size_t most_steps) {
  std::ranges::stable_sort(changes, {}, &MemoryChange::time);
  Held held = permanent;
  const bool exact = changes.size() < most_steps;
  FullestMoments moments(curve, end, most_steps);
  if (changes.empty() || changes.front().time > 0)
    exact ? append_step(curve, 0, held) : moments.hold(0, held);
  for (std::size_t i = 0; i < changes.size();) {
    const Nanoseconds time = changes[i].time;
    for (; i < changes.size() && changes[i].time == time; ++i)
      held[changes[i].category()] += Bytes(changes[i].bytes());
    if (exact) {
      append_step(curve, time, held);
    } else {
      moments.hold(time, held);
    }
  }
  if (!exact) moments.finish();
}

}  // namespace

Bytes MemoryCurve::total(std::size_t step) const {
  Bytes sum;
  for (const std::vector<Bytes>& category : bytes) sum += category[step];
  return sum;
}

std::vector<MemoryCurve> memory_curves(const SimulatedPart& part, const std::vector<DeviceMemory>& peaks,
                                       std::size_t most_steps) {
  const Topology& topology = part.topology();
  const std::vector<WeightMemory> permanent = part.contents().permanent_memory(part.expanded().strategy());
  MemoryChanges changes =
      memory_changes(part.expanded(), {part.timeline(), part.expanded().microbatches(),
                                       part.expanded().tasks_of_one_microbatch(), part.expanded().block()});
  const std::vector<std::int64_t> alike = part.devices_alike();
  std::vector<MemoryCurve> curves;
  for (std::size_t d = 0; d < alike.size(); ++d) {
    if (alike[d] == 0 || (peaks[d].peak.value == 0 && changes[d].empty())) continue;
    MemoryCurve& curve = curves.emplace_back();
    const DeviceId device(d);
    curve.device = topology.device(device).name;
    curve.alike = alike[d];
    curve.usable = topology.usable_memory(device, peaks[d].communicators);
    curve.memory = topology.kind(device).memory;
    curve.peak = peaks[d].peak;
    follow_changes(curve, changes[d], permanent_part(permanent[d]), part.timeline().makespan, most_steps);
  }
  return curves;
}

nlohmann::ordered_json json_of(const std::vector<MemoryCurve>& curves) {
  Json categories = Json::array(), devices = Json::array();
  for (std::size_t c = 0; c < kMemoryCategories; ++c)
    categories.push_back(name_of(static_cast<MemoryCategory>(c)));
  for (const MemoryCurve& curve : curves) {
    Json times = Json::array(), parts = Json::array();
    Nanoseconds before = 0;
    for (const Nanoseconds t : curve.time) {
      times.push_back(t - before);
      before = t;
    }
    for (const std::vector<Bytes>& category : curve.bytes) {
      const bool constant = std::ranges::all_of(category, [&](Bytes b) { return b == category.front(); });
      if (constant) {
        parts.push_back(category.empty() ? 0 : category.front().value);
        continue;
      }
      Json& list = parts.emplace_back(Json::array());
      for (const Bytes b : category) list.push_back(b.value);
    }
    devices.push_back({{"device", curve.device},
                       {"alike", curve.alike},
                       {"usable", curve.usable.value},
                       {"memory", curve.memory.value},
                       {"peak", curve.peak.value},
                       {"time_steps", std::move(times)},
                       {"bytes", std::move(parts)}});
  }
  return {{"categories", categories}, {"devices", devices}};
}

}  // namespace pipesim
