#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/parallel_config.h"
#include "taskgraph/schedules/schedule.h"

namespace pipesim {

/// Operators in stages that microbatches pass one after the other, in the order of a schedule.
///
/// A stage's devices are those of its operators' configs. Two stages have the same devices or none in common;
/// with fewer groups of devices than stages, group g runs the stages g, g + groups, g + 2·groups, …
struct Pipeline {
  std::string schedule = "1f1b";       ///< as schedule_kind() reads it
  std::vector<std::int32_t> stage_of;  ///< by operator; from 0, every stage has an operator
  bool operator==(const Pipeline&) const = default;
  [[nodiscard]] std::int32_t num_stages() const;
};

/// The order in which devices work.
struct PipelineOrder {
  std::vector<std::int32_t> group_of;  ///< by device; −1: it has no stage
  PipelineSchedule steps;              ///< by group
  std::size_t together = 1;            ///< so many steps come before the next barrier
};

/// The first use of an activation in an earlier stage than the one that makes it, in the order of tensors;
/// without a valid operator where no data go back.
UseRef use_before_its_data(const OperatorGraph& graph, std::span<const std::int32_t> stage_of);

/// How the schedules that plans can have are written ("zb-auto:LIMIT"); and the names of those that take no
/// limit, train as the model does without a pipeline and need one copy of it, which a search may choose from
/// unasked.
std::vector<std::string> plan_schedule_forms();
std::vector<std::string> plan_schedules();
/// Of a schedule as it is written. InputError with those that are allowed, or what is wrong with its limit.
const ScheduleKind& plan_schedule(const std::string& written);

/// Why operators with these configs can't be run so, naming stages (from 0) and operators. Nothing when they
/// can: then pipeline_order() gives the order.
std::optional<std::string> illegal(const OperatorGraph& graph, std::span<const ParallelConfig> configs,
                                   const Pipeline& pipeline, std::int32_t microbatches,
                                   const Topology& topology);
/// By device, where its part of a stage is for microbatches that go the opposite way
/// (ScheduleKind::both_ways): in the last stage for the first, and so on, at the same place among the stage's
/// devices.
std::vector<DeviceId> opposite_devices(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                                       std::size_t num_devices);
PipelineOrder pipeline_order(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                             std::int32_t microbatches, std::size_t num_devices,
                             MadeSchedules* made = nullptr);
/// Of plans without a pipeline: all devices are one group of one stage, and run one microbatch after the
/// other, forward and backward.
PipelineOrder order_without_stages(std::int32_t microbatches, std::size_t num_devices);

}  // namespace pipesim
