#include "tools/analysis/plans/memory_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/errors.h"
#include "taskgraph/plan/layer_modules.h"

namespace pipesim {
namespace {

DeviceId device_with_most(const std::vector<DeviceMemory>& peaks) {
  return DeviceId(
      static_cast<std::size_t>(std::ranges::max_element(peaks, {}, &DeviceMemory::peak) - peaks.begin()));
}

// Without the layer: "layer#gate" is "gate".
std::string name_in_layers(const Operator& op) {
  const std::size_t mark = op.repeat.find('#');
  if (mark == std::string::npos) return op.name;
  const std::string name = op.repeat.substr(mark + 1);
  return name.starts_with('.') ? name.substr(1) : name;
}

}  // namespace

std::optional<MemoryList> memory_list(const SimulatedPart& part, const std::vector<DeviceMemory>& peaks) {
  if (!part.is_all()) throw InternalError("memory is listed of plans that were simulated in full");
  MemoryList list;
  list.device = device_with_most(peaks);
  const DeviceMemory& of_device = peaks[list.device.index()];
  list.peak = of_device.peak;
  const TaskTimes times{part.timeline(), part.expanded().microbatches(),
                        part.expanded().tasks_of_one_microbatch(), part.expanded().block()};
  const std::string_view kernel = name_of(part.expanded().contents().costs().runtime().optimizer_kernel);
  std::map<std::pair<std::string, MemoryCategory>, std::pair<MemoryList::Line, std::set<OperatorId>>> lines;
  for (const LiveBuffer& live : live_buffers(part.expanded(), times, list.device, of_device.when)) {
    const std::string name = live.op.valid() ? name_in_layers(part.graph().op(live.op))
                             : live.category == MemoryCategory::OptimizerState
                                 ? fmt::format("intermediates of the step (optimizer-kernel={})", kernel)
                                 : "buckets and float32 copies";
    auto& [line, operators] = lines[{name, live.category}];
    line = {name, live.category, line.buffers + live.count, line.bytes + live.bytes};
    operators.insert(live.op);
  }
  Bytes listed;
  for (auto& [key, found] : lines) {
    auto& [line, operators] = found;
    if (operators.size() > 1) line.operators += fmt::format(" ({} operators)", operators.size());
    listed += line.bytes;
    list.lines.push_back(std::move(line));
  }
  if (listed != list.peak) return std::nullopt;
  std::ranges::stable_sort(list.lines, std::greater<>(), &MemoryList::Line::bytes);
  return list;
}

MemoryChoices MemoryChoices::all(bool pipeline) {
  MemoryChoices choices;
  choices.recomputes.emplace_back();
  for (std::size_t m = 0; m < kRecomputeModules; ++m)
    choices.recomputes.push_back(Recompute::of_modules({static_cast<RecomputeModule>(m)}));
  choices.recomputes.push_back({Recompute::Kind::Operators});
  choices.recomputes.push_back({Recompute::Kind::Full});
  using enum StateSharding::Kind;
  for (const StateSharding::Kind kind : {Optimizer, Gradients, Weights}) {
    if (kind == Gradients && pipeline) continue;  // no framework runs it
    StateSharding& sharding = choices.shardings.emplace_back();
    sharding.kind = kind;
    if (kind == Weights && pipeline) sharding.reshard = StateSharding::Reshard::Last;
  }
  return choices;
}

std::vector<MemoryList::Switch> memory_switches(const Strategy& strategy, const PlanContents& contents,
                                                Bytes peak, const MemoryChoices& choices) {
  std::vector<MemoryList::Switch> smaller;
  const PlanOptions& now = contents.options();
  const auto consider = [&](const std::string& setting, const PlanOptions& options) {
    Evaluator evaluator(contents.graph(), contents.costs(), options);
    const Evaluated evaluated = evaluator.evaluate(strategy, {.peaks = true});
    const Bytes largest = std::ranges::max_element(evaluated.peaks, {}, &DeviceMemory::peak)->peak;
    if (largest < peak) smaller.push_back({setting, largest, evaluated.cost->time});
  };
  for (const Recompute& recompute : choices.recomputes) {
    if (recompute == now.recompute || illegal(contents.graph(), recompute, now.pipeline)) continue;
    PlanOptions options = now;
    options.recompute = recompute;
    consider("recompute=" + recompute.str(), options);
  }
  for (StateSharding sharding : choices.shardings) {
    if (sharding.any()) sharding.group = now.state_sharding.group;
    if (sharding == now.state_sharding || illegal(sharding, now.pipeline, now.microbatches)) continue;
    PlanOptions options = now;
    options.state_sharding = sharding;
    consider(sharding.str(), options);
  }
  std::ranges::stable_sort(smaller, {}, &MemoryList::Switch::time);
  return smaller;
}

}  // namespace pipesim
