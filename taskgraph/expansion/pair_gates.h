#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "taskgraph/expansion/made_tasks.h"
#include "taskgraph/expansion/task_graph.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {

class StrategyExpander;
class PlanContents;
class ExpandedStrategy;

/// Makes steps beside each other (PipelineStep::beside) one call on each device: it begins when all that
/// comes in for them from other groups is there, and what they make for other groups is sent when both have
/// ended. This is what DualPipe (DeepSeek, 2025) and torchtitan's DualPipeV do.
///
/// Every forward step begins with a gate, whether another is beside it or not, so that all microbatches have
/// the same tasks.
class PairGates {
 public:
  explicit PairGates(StrategyExpander& expander);

  /// Adds the gates of a microbatch, if the order has such steps.
  void add(const PipelineOrder& order, const BoundStrategy& strategy, std::int32_t microbatch);
  /// The task after which steps up to a barrier may begin: their gate, which waits for `before`.
  TaskId enter(std::span<const PipelineStep> steps, DeviceId device, TaskId before);
  /// Makes gates wait for transfers from other groups, and transfers to other groups for the barriers behind
  /// the steps. `first_barriers`: by device, the one behind its first step.
  void connect(const PipelineOrder& order, std::span<const TaskId> first_barriers);

 private:
  /// A pass of a microbatch through a stage that is one of two beside each other.
  struct Paired {
    std::int32_t barrier = -1;  ///< behind both: its number on its devices; −1: there is no other
    std::int32_t forward_microbatch = 0, forward_stage = 0;  ///< those of the gate
  };
  /// What a wiring moves from group to group.
  struct Crossing {
    struct Sent {
      std::int32_t task = 0;  ///< of the plan
      DeviceId device;
      std::int32_t stage = 0;  ///< that made it
    };
    std::vector<Sent> sent;
    std::vector<PlanExpansion::Arrival> arrived;  ///< of what the reader's stage has no part in
    std::int32_t reader_stage = 0;
  };
  void list_pairs(const PipelineOrder& order);
  [[nodiscard]] Paired& paired(bool forward, std::int32_t stage, std::int32_t microbatch);
  [[nodiscard]] bool is_between_stages(const Wiring& wiring) const;
  [[nodiscard]] std::int32_t group_of(OperatorId op, std::int32_t microbatch) const;
  [[nodiscard]] TaskId& gate_of_first(std::int32_t stage, std::int32_t microbatch, DeviceId device);
  [[nodiscard]] TaskId gate(std::int32_t stage, std::int32_t microbatch, DeviceId device);
  const Crossing& crossing(const Wiring& wiring, const PipelineOrder& order);
  void list_sent(const Wiring& wiring, const PipelineOrder& order, std::int32_t to, Crossing& crossing) const;
  void list_arrived(const Wiring& wiring, const PipelineOrder& order, std::int32_t to,
                    Crossing& crossing) const;

  StrategyExpander& expander_;
  const PlanContents& contents_;
  const ExpandedStrategy& made_;
  bool any_ = false;
  std::size_t stages_ = 0;
  std::vector<std::int32_t> group_of_stage_;  // by way and stage
  std::vector<TaskId> gates_;                 // by way, stage and device: those of the way's first microbatch
  std::vector<Paired> paired_;                // by direction, stage and microbatch
  /// By way, kind, tensor and ordinal of a wiring.
  std::map<std::tuple<std::int32_t, TaskKind, TensorId, std::int32_t>, Crossing> crossings_;
};

}  // namespace pipesim
