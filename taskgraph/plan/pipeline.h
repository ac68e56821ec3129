#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/plan/parallel_config.h"
#include "taskgraph/schedules/schedule.h"

namespace pipesim {

/// Operators in stages that microbatches pass one after the other, in the order of a schedule.
///
/// A stage's devices are those of its operators' configs. Two stages have the same devices or none in common;
/// with fewer groups of devices than stages, group g runs the stages g, g + groups, g + 2·groups, …
struct Pipeline {
  std::string schedule = "1f1b";       ///< as schedule_kind() reads it
  std::vector<std::int32_t> stage_of;  ///< by operator; from 0, every stage has an operator
  /// By stage: replicas that take microbatches in turn, number m going to replica m mod replicas (Narayanan
  /// et al., SOSP 2019, section 3.2: "1F1B-RR"). Empty: one each. Every operator of the stage then has as
  /// many copies, or a multiple of it, and replica j the j-th of equal parts of its shards; no device is in
  /// two replicas. Where one device runs all stages there are no turns, but weights change as if there were.
  std::vector<std::int32_t> replicas = {};
  bool operator==(const Pipeline&) const = default;
  [[nodiscard]] std::int32_t num_stages() const;
  [[nodiscard]] std::int32_t replicas_of(std::int32_t stage) const {
    return replicas.empty() ? 1 : replicas[static_cast<std::size_t>(stage)];
  }
};

/// Most ways in which microbatches go through the devices, see ways_of().
inline constexpr std::int32_t kMostWays = 128;

/// The order in which devices work. A group are those of a stage, of all stages that it takes turns with, or
/// of one of a stage's replicas.
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
/// The kind of a schedule that a plan may have, by its name as written. InputError with the names that are
/// allowed, or with what is wrong with its limit.
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
/// In how many ways a stage's microbatches go in turn: as many as it has replicas, two with
/// ScheduleKind::both_ways. Of all stages together: their least common multiple.
std::int32_t ways_of(const Pipeline& pipeline, std::int32_t stage);
std::int32_t ways_of(const Pipeline& pipeline);
/// The configs of microbatches that go a way, whose numbers leave this remainder by the number of ways.
std::vector<ParallelConfig> configs_of_way(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                                           std::int32_t way, std::size_t num_devices);
PipelineOrder pipeline_order(std::span<const ParallelConfig> configs, const Pipeline& pipeline,
                             std::int32_t microbatches, std::size_t num_devices,
                             MadeSchedules* made = nullptr);
/// The order of a plan without a pipeline: all devices are one group of one stage, and run one microbatch
/// after the other, forward and backward.
PipelineOrder order_without_stages(std::int32_t microbatches, std::size_t num_devices);

}  // namespace pipesim
