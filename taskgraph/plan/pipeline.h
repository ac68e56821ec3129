#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/plan/parallel_config.h"
#include "taskgraph/plan/stage_messages.h"
#include "taskgraph/schedules/schedule.h"

namespace pipesim {

/// Operators in stages. Microbatches pass the stages one after the other, in the order of a schedule.
///
/// A stage's devices are those of its operators' configs. Two stages have the same devices or none in common.
/// With fewer groups of devices than stages, group g runs the stages g, g + groups, g + 2·groups, …; under
/// schedules in a V, the stages g and 2·groups − 1 − g.
struct Pipeline {
  std::string schedule = "1f1b";       ///< as schedule_kind() reads it
  std::vector<std::int32_t> stage_of;  ///< by operator; from 0, every stage has an operator
  /// By stage: the number of replicas that take microbatches in turn. Microbatch m goes to replica m mod
  /// replicas (Narayanan et al., SOSP 2019, section 3.2: "1F1B-RR"). Empty: one replica per stage. Every
  /// operator of the stage has that many copies, or a multiple. Its shards are divided into equal parts, one
  /// per replica, in order; no device is in two replicas. Where one device runs all stages there are no
  /// turns, but weights change as if there were.
  std::vector<std::int32_t> replicas = {};
  /// What devices do while stages send tensors; without it, Runtime::messages says so.
  std::optional<StageMessages> messages = {};
  bool operator==(const Pipeline&) const = default;
  [[nodiscard]] std::int32_t num_stages() const;
  [[nodiscard]] std::int32_t replicas_of(std::int32_t stage) const {
    return replicas.empty() ? 1 : replicas[static_cast<std::size_t>(stage)];
  }
};

/// The largest number of ways that a plan may have, see ways_of().
inline constexpr std::int32_t kMostWays = 128;

/// The steps of every group of devices, in order. A group consists of the devices of a stage and of all
/// stages that share these devices, or of the devices of one replica of a stage.
struct PipelineOrder {
  std::vector<std::int32_t> group_of;  ///< by device; −1: it has no stage
  PipelineSchedule steps;              ///< by group
  std::size_t together = 1;            ///< number of steps between two barriers, see steps_to_barrier()
  /// Whether any steps run beside each other.
  [[nodiscard]] bool has_pairs() const {
    return std::ranges::any_of(steps, [](const std::vector<PipelineStep>& of_group) {
      return std::ranges::any_of(of_group, &PipelineStep::beside);
    });
  }
};

/// The number of steps, from number `first` on, up to the next barrier: `together`, and those beside them.
inline std::size_t steps_to_barrier(std::span<const PipelineStep> steps, std::size_t first,
                                    std::size_t together) {
  std::size_t end = std::min(first + together, steps.size());
  while (end < steps.size() && steps[end].beside) ++end;
  return end - first;
}

/// Where the steps of a group between two barriers begin, and where the last ones end.
inline std::vector<std::size_t> begins_between_barriers(std::span<const PipelineStep> steps,
                                                        std::size_t together) {
  std::vector<std::size_t> begins{0};
  while (begins.back() < steps.size())
    begins.push_back(begins.back() + steps_to_barrier(steps, begins.back(), together));
  return begins;
}

/// The first use of an activation in an earlier stage than the one that makes it, in the order of tensors.
/// Its operator is invalid when no activation goes back.
UseRef use_before_its_data(const OperatorGraph& graph, std::span<const std::int32_t> stage_of);

/// The first function lists the schedules that plans can have, as they are written ("zb-auto:LIMIT"). The
/// second lists the names that a search may choose unasked: schedules that take no number, train as the model
/// does without a pipeline, and need one copy of it.
std::vector<std::string> plan_schedule_forms();
std::vector<std::string> plan_schedules();
/// The kind of a schedule in a plan, by its name as written. InputError with the allowed names, or with the
/// fault of its limit.
const ScheduleKind& plan_schedule(const std::string& written);

/// Why operators with these configs can't run in this pipeline, naming stages (from 0) and operators. Nothing
/// when they can: then pipeline_order() gives the order.
std::optional<std::string> illegal(const OperatorGraph& graph, std::span<const ParallelConfig> configs,
                                   const Pipeline& pipeline, std::int32_t microbatches,
                                   const Topology& topology);
/// By device: the device that takes over its part of a stage for microbatches in the opposite direction
/// (ScheduleKind::both_ways). The last stage's devices take over the first stage, and so on, each at the same
/// place among the stage's devices.
std::vector<DeviceId> opposite_devices(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                                       std::size_t num_devices);
/// The number of different sets of devices ("ways") that microbatches use in turn. For a stage: its number of
/// replicas, or two with ScheduleKind::both_ways. For a pipeline: the least common multiple over its stages.
std::int32_t ways_of(const Pipeline& pipeline, std::int32_t stage);
std::int32_t ways_of(const Pipeline& pipeline);
/// The configs of the microbatches of a way: those whose number modulo the number of ways is `way`.
std::vector<ParallelConfig> configs_of_way(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                                           std::int32_t way, std::size_t num_devices);
/// `made`: schedules that are kept, or null.
PipelineOrder pipeline_order(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                             std::int32_t microbatches, std::size_t num_devices);
PipelineOrder pipeline_order(std::span<const ParallelConfig* const> configs, const Pipeline& pipeline,
                             std::int32_t microbatches, std::size_t num_devices, MadeSchedules* made);
/// The order of a plan without a pipeline: all devices are one group with one stage. They run one microbatch
/// after the other, each forward and backward.
PipelineOrder order_without_stages(std::int32_t microbatches, std::size_t num_devices);

}  // namespace pipesim
