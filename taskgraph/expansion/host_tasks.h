#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "taskgraph/binding/bound_operator.h"
#include "taskgraph/expansion/made_tasks.h"
#include "taskgraph/expansion/task_graph.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {

class StrategyExpander;
class PlanContents;
class ExpandedStrategy;

/// The processes that launch kernels (Runtime::host): one for each device, which goes through the operators
/// of a step in their order and runs ahead of the device. Operators are launched in segments of a few: the
/// device can't end a segment before its process has. A process begins a step when its device has ended the
/// step before, and when data from other stages have come in: that is when frameworks wait for the device
/// (Megatron-LM's torch.cuda.synchronize() after messages, for one). Within a forward step it waits for the
/// device before it launches what sends tokens to experts (Runtime::reads_token_counts).
///
/// Steps beside each other (PipelineStep::beside) are launched as if by two processes.
class HostTasks {
 public:
  explicit HostTasks(StrategyExpander& expander);

  /// Adds the tasks of a microbatch, whose passes and transfers (the wirings from `first_wiring` on) are
  /// made.
  void add(const PipelineOrder& order, const BoundStrategy& strategy, std::int32_t microbatch,
           std::size_t first_wiring);
  /// Makes the process of the device begin the step behind `before`, and `after` wait for it. Either may be
  /// invalid.
  void connect(const PipelineStep& step, DeviceId device, TaskId before, TaskId after);

 private:
  enum Phase : std::uint8_t { kForward, kBackward, kWeights };
  static constexpr std::size_t kPhases = 3;
  struct Chain {
    TaskId first, last;
    TaskId launched;  ///< what the device runs last of what has been launched
  };
  /// What a process launches of one segment in one phase.
  struct Part {
    Seconds time;
    OperatorId last;                    ///< the operator that the device runs last
    std::array<TaskId, 2> last_passes;  ///< its passes wait for the launches; the second may be invalid
  };
  /// What a device's process launches of one segment.
  struct Launches {
    DeviceId device;
    std::array<Part, kPhases> parts;
  };
  void begin(const PipelineOrder& order);
  [[nodiscard]] bool has_stages_on_several_nodes() const;
  void count_launches(std::size_t first_wiring);
  void collect(std::size_t segment, const BoundStrategy& strategy, std::int32_t microbatch);
  void add_operator(OperatorId op, const BoundOperator& bound, const OperatorTasks& tasks);
  [[nodiscard]] Part& part_of(DeviceId device, Phase phase);
  [[nodiscard]] bool waits_for_counts(std::size_t op) const;
  void wait_for_device(const Chain& chain, TaskId launch);
  void add_parts(std::size_t segment, Phase phase, std::int32_t microbatch);
  void wait_for_data(std::size_t first_wiring);
  void turn_round();
  void launch_weights_behind_inputs();
  void connect(const PipelineStep& step, Phase phase, DeviceId device, TaskId before, TaskId after);

  StrategyExpander& expander_;
  const PlanContents& contents_;
  const ExpandedStrategy& made_;
  /// The times of an operator, which depend on the CUDA graph that has it.
  [[nodiscard]] HostTimes times_of(OperatorId op) const;
  [[nodiscard]] bool in_one_graph(const Wiring& wiring) const;

  bool begun_ = false, splits_backward_ = false, stages_on_several_nodes_ = false;
  std::vector<std::size_t> segment_ends_;                // behind the last operator of each
  std::vector<std::size_t> segment_of_;                  // by operator
  std::vector<std::int32_t> graph_of_;                   // CUDA graphs, by operator; empty: there are none
  std::vector<bool> begins_graph_;                       // by operator
  std::unordered_map<std::uint64_t, Chain> chains_;      // of the first microbatch of each way
  std::unordered_map<std::uint64_t, Chain> now_;         // of the microbatch that is being added
  std::unordered_map<std::uint64_t, Seconds> launches_;  // of communication, by segment, phase, device
  std::vector<std::vector<Launches>> by_segment_;        // of the microbatch that is being added
  std::vector<Launches>* now_collected_ = nullptr;       // of the segment that is being collected
  std::vector<std::int32_t> number_of_device_;           // among these; −1: none
};

}  // namespace pipesim
