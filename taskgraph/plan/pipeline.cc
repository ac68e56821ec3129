#include "taskgraph/plan/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "taskgraph/plan/weight_versions.h"
#include "topologies/topology.h"

namespace pipesim {
namespace {

using Devices = std::vector<DeviceId>;  // ascending
using Configs = std::span<const ParallelConfig* const>;

// Some iterations are simulated one after the other.
constexpr std::int32_t kMostBetweenChanges = 4096;

std::vector<const ParallelConfig*> pointers_to(std::span<const ParallelConfig> configs) {
  std::vector<const ParallelConfig*> pointers;
  for (const ParallelConfig& config : configs) pointers.push_back(&config);
  return pointers;
}

std::vector<Devices> devices_of_stages(Configs configs, const Pipeline& pipeline) {
  const auto stages = static_cast<std::size_t>(pipeline.num_stages());
  std::vector<Devices> devices(stages);
  std::vector<const Devices*> before(stages, nullptr);  // what an operator of the stage added last
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const auto stage = static_cast<std::size_t>(pipeline.stage_of[i]);
    const Devices& used = configs[i]->devices;
    if (before[stage] && *before[stage] == used) continue;
    before[stage] = &used;
    devices[stage].insert(devices[stage].end(), used.begin(), used.end());
  }
  for (Devices& of_stage : devices) {
    if (!std::ranges::is_sorted(of_stage)) std::ranges::sort(of_stage);
    of_stage.erase(std::unique(of_stage.begin(), of_stage.end()), of_stage.end());
  }
  return devices;
}

// The devices of each group, in the order of their first stages.
std::vector<Devices> groups_of(const std::vector<Devices>& stages) {
  std::vector<Devices> groups;
  for (const Devices& stage : stages) {
    if (std::ranges::find(groups, stage) == groups.end()) groups.push_back(stage);
  }
  return groups;
}

std::optional<std::string> refuse_stages(const OperatorGraph& graph, const Pipeline& pipeline) {
  const std::int32_t stages = pipeline.num_stages();
  if (pipeline.stage_of.size() != graph.operators().size()) {
    return fmt::format("{} operators have a stage, the model has {}", pipeline.stage_of.size(),
                       graph.operators().size());
  }
  for (std::int32_t s = 0; s < stages; ++s) {
    if (std::ranges::find(pipeline.stage_of, s) == pipeline.stage_of.end())
      return fmt::format("stage {} of {} has no operator", s, stages);
  }
  const UseRef use = use_before_its_data(graph, pipeline.stage_of);
  if (use.op.valid()) {
    const Operator& reader = graph.op(use.op);
    const Tensor& tensor = graph.tensor(reader.uses[static_cast<std::size_t>(use.use)].tensor);
    return fmt::format(
        "operator \"{}\" of stage {} reads \"{}\", which operator \"{}\" makes in stage {}; data must not "
        "go back to an earlier stage",
        reader.name, pipeline.stage_of[use.op.index()], tensor.name, graph.op(tensor.producer).name,
        pipeline.stage_of[tensor.producer.index()]);
  }
  return std::nullopt;
}

std::optional<std::string> refuse_devices(const std::vector<Devices>& stages, const std::string& schedule,
                                          const Topology& topology) {
  for (std::size_t a = 0; a < stages.size(); ++a) {
    for (std::size_t b = a + 1; b < stages.size(); ++b) {
      if (stages[a] == stages[b]) continue;
      const auto shared = std::ranges::find_if(
          stages[a], [&](DeviceId d) { return std::ranges::binary_search(stages[b], d); });
      if (shared == stages[a].end()) continue;
      return fmt::format(
          "stages {} and {} share {} but not all of their devices; two stages have the same devices or none "
          "in common",
          a, b, topology.device(*shared).name);
    }
  }
  const std::vector<Devices> groups = groups_of(stages);
  if (stages.size() % groups.size() != 0) {
    return fmt::format("{} stages on {} groups of devices; each group must have as many", stages.size(),
                       groups.size());
  }
  const bool in_v = lies_in_v(schedule);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::int64_t group =
        device_of_stage(static_cast<std::int64_t>(s), static_cast<std::int64_t>(groups.size()), in_v);
    const Devices& expected = groups[static_cast<std::size_t>(group)];
    if (stages[s] == expected) continue;
    const auto first_on = [&](const Devices& devices) {
      return std::ranges::find(stages, devices) - stages.begin();
    };
    return fmt::format(
        "stage {} has the devices of stage {}; {}, so it must have those of stage {}", s, first_on(stages[s]),
        in_v ? fmt::format("under schedule \"{}\" stages go down {} groups of devices and up again", schedule,
                           groups.size())
             : fmt::format("{} groups of devices take turns", groups.size()),
        first_on(expected));
  }
  return std::nullopt;
}

std::optional<std::string> refuse_opposite_ways(const std::vector<Devices>& stages,
                                                const std::string& schedule) {
  for (std::size_t s = 0; s < stages.size() / 2; ++s) {
    const std::size_t opposite = stages.size() - 1 - s;
    if (stages[s].size() == stages[opposite].size()) continue;
    return fmt::format(
        "schedule \"{}\": every second microbatch runs stage {} where stage {} is, and the other way round; "
        "found {} "
        "and {} devices, allowed: as many",
        schedule, s, opposite, stages[s].size(), stages[opposite].size());
  }
  return std::nullopt;
}

bool takes_turns(const Pipeline& pipeline) {
  return std::ranges::any_of(pipeline.replicas, [](std::int32_t replicas) { return replicas > 1; });
}

// One device runs all: nobody takes turns.
bool is_replay(const std::vector<Devices>& stages) {
  return stages.front().size() == 1 && groups_of(stages).size() == 1;
}

PipelineShape shape_of(const std::vector<Devices>& stages, const Pipeline& pipeline,
                       std::int32_t microbatches) {
  const auto groups = static_cast<std::int32_t>(groups_of(stages).size());
  PipelineShape shape{groups, microbatches, static_cast<std::int32_t>(stages.size()) / groups};
  if (takes_turns(pipeline) && !is_replay(stages)) shape.replicas = pipeline.replicas;
  return shape;
}

// The devices of replica `replica` of an operator.
std::span<const DeviceId> part_of(const ParallelConfig& config, std::int32_t replicas, std::int32_t replica) {
  if (config.devices.size() == 1) return config.devices;
  const std::size_t each = config.devices.size() / static_cast<std::size_t>(replicas);
  return std::span(config.devices).subspan(static_cast<std::size_t>(replica) * each, each);
}

std::optional<std::string> refuse_counts(const Pipeline& pipeline) {
  const std::vector<std::int32_t>& replicas = pipeline.replicas;
  if (replicas.size() != static_cast<std::size_t>(pipeline.num_stages())) {
    return fmt::format("{} counts of replicas for {} stages; each stage needs one", replicas.size(),
                       pipeline.num_stages());
  }
  std::int32_t ways = 1;
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    if (replicas[s] < 1 || replicas[s] > kMostWays)
      return fmt::format("stage {} has {} replicas, allowed: 1 to {}", s, replicas[s], kMostWays);
    ways = std::lcm(ways, replicas[s]);
    if (ways > kMostWays) {
      return fmt::format(
          "up to stage {} replicas take turns that come again after {} microbatches, the least common "
          "multiple "
          "of their numbers; allowed: up to {}",
          s, ways, kMostWays);
    }
  }
  return std::nullopt;
}

std::optional<std::string> refuse_replicas(const OperatorGraph& graph,
                                           std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                                           const std::vector<Devices>& stages, const Topology& topology) {
  if (pipeline.replicas.empty()) return std::nullopt;
  if (auto reason = refuse_counts(pipeline)) return reason;
  if (is_replay(stages) || !takes_turns(pipeline)) return std::nullopt;
  if (groups_of(stages).size() < stages.size())
    return "replicas take microbatches in turn, but stages share devices; each must have its own";
  std::vector<std::int32_t> replica_of(topology.num_devices(), -1);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const std::int32_t stage = pipeline.stage_of[i], replicas = pipeline.replicas_of(stage);
    const std::string& name = graph.operators()[i].name;
    if (configs[i].replicas % replicas != 0) {
      return fmt::format(
          "operator \"{}\" of stage {} has {} cop{}, but the stage {} replicas, each of which needs one or "
          "more",
          name, stage, configs[i].replicas, configs[i].replicas == 1 ? "y" : "ies", replicas);
    }
    for (std::int32_t replica = 0; replica < replicas; ++replica) {
      for (const DeviceId d : part_of(configs[i], replicas, replica)) {
        std::int32_t& of_device = replica_of[d.index()];
        if (of_device >= 0 && of_device != replica) {
          return fmt::format("{} is in replica {} and, with operator \"{}\", in replica {} of stage {}",
                             topology.device(d).name, of_device, name, replica, stage);
        }
        of_device = replica;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::int32_t Pipeline::num_stages() const {
  return stage_of.empty() ? 0 : *std::ranges::max_element(stage_of) + 1;
}

UseRef use_before_its_data(const OperatorGraph& graph, std::span<const std::int32_t> stage_of) {
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const OperatorId producer = graph.tensors()[t].producer;
    if (!producer.valid()) continue;
    for (const UseRef use : graph.consumers(TensorId(t))) {
      if (stage_of[use.op.index()] < stage_of[producer.index()]) return use;
    }
  }
  return {};
}

std::vector<std::string> plan_schedule_forms() {
  std::vector<std::string> forms;
  for (const ScheduleKind& kind : schedule_kinds()) forms.push_back(kind.form());
  return forms;
}

std::vector<std::string> plan_schedules() {
  std::vector<std::string> names;
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (!kind.takes_number() && !kind.both_ways && kind.weights == WeightChange::AfterIteration)
      names.emplace_back(kind.name);
  }
  return names;
}

const ScheduleKind& plan_schedule(const std::string& written) {
  const std::string name = written.substr(0, written.find(':'));
  if (std::ranges::find(schedule_kinds(), name, &ScheduleKind::name) == schedule_kinds().end()) {
    const std::vector<std::string> forms = plan_schedule_forms();
    throw InputError(fmt::format("schedule \"{}\": unknown{}, allowed: {}", written,
                                 did_you_mean(name, forms), list_names(forms)));
  }
  return schedule_kind(written);
}

std::optional<std::string> illegal(const OperatorGraph& graph, std::span<const ParallelConfig> configs,
                                   const Pipeline& pipeline, std::int32_t microbatches,
                                   const Topology& topology) {
  if (auto reason = refuse_stages(graph, pipeline)) return reason;
  const std::vector<Devices> stages = devices_of_stages(pointers_to(configs), pipeline);
  if (auto reason = refuse_devices(stages, pipeline.schedule, topology)) return reason;
  try {
    const ScheduleKind& kind = plan_schedule(pipeline.schedule);
    const TensorId shared =
        kind.versions_behind == nullptr ? TensorId() : weight_of_several_stages(graph, pipeline);
    if (shared.valid())
      return fmt::format(
          "schedule \"{}\": weight \"{}\" is used in several stages, and each would have versions of its "
          "own; "
          "put all its uses into one stage, or take a schedule that empties the pipeline, like 1f1b",
          pipeline.schedule, graph.tensor(shared).name);
    if (auto reason = refuse_replicas(graph, configs, pipeline, stages, topology)) return reason;
    const PipelineShape shape = shape_of(stages, pipeline, microbatches);
    // The first stage begins so many microbatches, less one, before the first comes back; those of the third
    // iteration need weights that those of the first have changed.
    const std::int32_t least = std::max(1, shape.devices - 1);
    if (kind.weights == WeightChange::BetweenIterations &&
        (microbatches < least || microbatches > kMostBetweenChanges)) {
      return fmt::format("schedule \"{}\": found {} for {}, allowed: from {} to {}", pipeline.schedule,
                         counted(microbatches, "microbatch"), counted(shape.devices, "stage"), least,
                         kMostBetweenChanges);
    }
    require_shape(pipeline.schedule, shape);
    if (kind.both_ways) return refuse_opposite_ways(stages, pipeline.schedule);
  } catch (const InputError& error) {
    return error.what();
  }
  return std::nullopt;
}

std::vector<DeviceId> opposite_devices(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                                       std::size_t num_devices) {
  const std::vector<Devices> stages = devices_of_stages(pointers_to(configs), pipeline);
  std::vector<DeviceId> opposite(num_devices);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    auto other = stages[stages.size() - 1 - s].begin();
    for (const DeviceId d : stages[s]) opposite[d.index()] = *other++;
  }
  return opposite;
}

std::int32_t ways_of(const Pipeline& pipeline, std::int32_t stage) {
  return schedule_kind(pipeline.schedule).both_ways ? 2 : pipeline.replicas_of(stage);
}

std::int32_t ways_of(const Pipeline& pipeline) {
  if (schedule_kind(pipeline.schedule).both_ways) return 2;
  std::int32_t ways = 1;
  for (const std::int32_t replicas : pipeline.replicas) ways = std::lcm(ways, replicas);
  return ways;
}

std::vector<ParallelConfig> configs_of_way(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                                           std::int32_t way, std::size_t num_devices) {
  std::vector<ParallelConfig> of_way(configs.begin(), configs.end());
  if (schedule_kind(pipeline.schedule).both_ways) {
    if (way % 2 == 0) return of_way;
    const std::vector<DeviceId> opposite = opposite_devices(configs, pipeline, num_devices);
    for (ParallelConfig& config : of_way) {
      for (DeviceId& d : config.devices) d = opposite[d.index()];
    }
    return of_way;
  }
  for (std::size_t i = 0; i < of_way.size(); ++i) {
    const std::int32_t replicas = pipeline.replicas_of(pipeline.stage_of[i]);
    if (configs[i].devices.size() == 1) continue;
    const std::span<const DeviceId> part = part_of(configs[i], replicas, way % replicas);
    of_way[i].replicas = configs[i].replicas / replicas;
    of_way[i].devices.assign(part.begin(), part.end());
  }
  return of_way;
}

PipelineOrder pipeline_order(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                             std::int32_t microbatches, std::size_t num_devices) {
  return pipeline_order(pointers_to(configs), pipeline, microbatches, num_devices, nullptr);
}

PipelineOrder pipeline_order(std::span<const ParallelConfig* const> configs, const Pipeline& pipeline,
                             std::int32_t microbatches, std::size_t num_devices, MadeSchedules* made) {
  const std::vector<Devices> stages = devices_of_stages(configs, pipeline);
  const std::vector<Devices> groups = groups_of(stages);
  const PipelineShape shape = shape_of(stages, pipeline, microbatches);
  PipelineOrder order{std::vector<std::int32_t>(num_devices, -1),
                      made ? made->of(pipeline.schedule, shape) : make_schedule(pipeline.schedule, shape), 1};
  if (shape.replicas.empty()) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const DeviceId d : groups[g]) order.group_of[d.index()] = static_cast<std::int32_t>(g);
    }
    return order;
  }
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const std::int32_t stage = pipeline.stage_of[i], replicas = pipeline.replicas_of(stage);
    const auto first = pipeline.replicas.begin();
    const std::int32_t before = std::reduce(first, first + stage);
    for (std::int32_t replica = 0; replica < replicas; ++replica) {
      for (const DeviceId d : part_of(*configs[i], replicas, replica))
        order.group_of[d.index()] = before + replica;
    }
  }
  return order;
}

PipelineOrder order_without_stages(std::int32_t microbatches, std::size_t num_devices) {
  PipelineOrder order{std::vector<std::int32_t>(num_devices, 0), PipelineSchedule(1), 2};
  for (std::int32_t m = 0; m < microbatches; ++m) {
    for (const StepKind kind : {StepKind::Forward, StepKind::Backward})
      order.steps.front().push_back({kind, m, 0});
  }
  return order;
}

}  // namespace pipesim
