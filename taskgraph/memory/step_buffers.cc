#include "taskgraph/memory/step_buffers.h"

#include <algorithm>
#include <tuple>

namespace pipesim {
namespace {

// A step of a device's optimizer.
struct OptimizerStep {
  Bytes widened, intermediates;
  Nanoseconds last_begins = 0, ends = 0;
};
using OptimizerSteps =
    std::map<std::tuple<DeviceId, std::int32_t, std::int32_t>, OptimizerStep>;  // by stage and version, too

void add_to_steps(const PlanContents& contents, const OperatorTasks& tasks, const Timeline& timeline,
                  std::int32_t stage, std::int32_t version, OptimizerSteps& steps) {
  const OwnedUpdates& work = *tasks.updates;
  const bool of_all = holds_intermediates_of_all(contents.options().optimizer, contents.costs().runtime());
  for (std::size_t k = 0; k < work.devices.size(); ++k) {
    OptimizerStep& step = steps[{work.devices[k], stage, version}];
    const std::size_t update = tasks.update.index() + k;
    step.widened += work.widened[k];
    step.intermediates = of_all ? step.intermediates + work.intermediates[k]
                                : std::max(step.intermediates, work.intermediates[k]);
    step.last_begins = std::max(step.last_begins, timeline.start[update]);
    step.ends = std::max(step.ends, timeline.end[update]);
  }
}

// What is joined, or copied to be joined, is freed before the optimizer's own kernels run. When within the
// step that is matters to no peak, so it is in its middle.
void add_step(const PlanContents& contents, DeviceId device, const OptimizerStep& step, Bytes released,
              std::vector<RuntimeBuffer>& buffers) {
  const Runtime& runtime = contents.costs().runtime();
  const StateSharding& sharding = contents.options().state_sharding;
  const std::int64_t each = bytes_in_step(runtime.step_gradients, sharding.any());
  Bytes copies = step.widened, intermediates = step.intermediates;
  if (sharding.gathers_to_use() && runtime.step_part > 0) {
    const DataType type = sharding.kept_type(contents.trained_type());
    copies = std::min(copies, Bytes(runtime.step_part * each));
    intermediates =
        std::min(intermediates, optimizer_intermediates(runtime.step_part, type, contents.options().optimizer,
                                                        runtime.optimizer_kernel));
  }
  const auto add = [&](MemoryCategory category, Bytes bytes, Nanoseconds from, Nanoseconds until) {
    if (bytes.value != 0) buffers.push_back({device, category, {}, bytes, from, until});
  };
  using enum MemoryCategory;
  const Nanoseconds begin = step.last_begins, end = step.ends;
  add(Gradients, -1 * released, begin, end);
  if (intermediates.value == 0) return add(Gradients, copies, begin, end);
  const Nanoseconds joined_until = begin + (end - begin) / 2;
  const Bytes read = each == 0 ? Bytes(0) : Bytes(copies.value / each * bytes_per_element(DataType::Float32));
  add(Gradients, read, begin, end);
  add(Gradients, copies - read, begin, joined_until);
  add(OptimizerState, intermediates, joined_until, end);
}

}  // namespace

std::vector<RuntimeBuffer> step_buffers(const ExpandedStrategy& expanded, const TaskTimes& times) {
  const PlanContents& contents = expanded.contents();
  const Runtime& runtime = contents.costs().runtime();
  if (runtime.step_gradients == StepGradients::Own && runtime.optimizer_kernel == OptimizerKernel::Fused &&
      runtime.bucket == 0)
    return {};
  OptimizerSteps steps;
  contents.for_each_update(expanded.strategy(), [&](OperatorId op, const OwnedUpdates&) {
    const auto add = [&](std::int32_t block, std::int32_t stage, std::int32_t version) {
      add_to_steps(contents, expanded.tasks_of(op, block), times.timeline, stage, version, steps);
    };
    if (!contents.versions().several()) return add(0, 0, 0);
    const std::int32_t stage = contents.stage_of(op), every = contents.versions().every(stage);
    for (const auto& [version, users] : last_users(contents, stage, times.microbatches))
      add(version * every, stage, version);
  });
  const std::vector<Bytes> released = released_in_steps(contents, expanded.strategy());
  std::vector<RuntimeBuffer> buffers;
  for (const auto& [at, step] : steps) {
    const DeviceId device = std::get<DeviceId>(at);
    add_step(contents, device, step, released[device.index()], buffers);
  }
  return buffers;
}

std::map<std::int32_t, std::vector<std::int32_t>> last_users(const PlanContents& contents, std::int32_t stage,
                                                             std::int32_t microbatches) {
  const WeightVersions& versions = contents.versions();
  const std::int32_t replicas = contents.options().pipeline->replicas_of(stage);
  std::map<std::int32_t, std::vector<std::int32_t>> users;
  for (std::int32_t m = 0; m < microbatches; ++m) {
    const std::int32_t version = versions.version(stage, m), next = m + replicas;
    if (next >= microbatches || versions.version(stage, next) != version) users[version].push_back(m);
  }
  return users;
}

}  // namespace pipesim
