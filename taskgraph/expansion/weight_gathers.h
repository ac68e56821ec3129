#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "taskgraph/binding/used_devices.h"
#include "taskgraph/expansion/made_tasks.h"
#include "taskgraph/expansion/task_graph.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {

class StrategyExpander;
class PlanContents;
class ExpandedStrategy;

/// For plans that divide state (StateSharding): gathers weights before they are used, or after they are
/// updated.
///
/// Weights are gathered by layers (layers_of()); what stands between layers is a layer of its own, and so is
/// every operator of a model without layers. A stage goes through its layers forward, then back. A layer is
/// done on a device when its last operator is.
class WeightGathers {
 public:
  explicit WeightGathers(StrategyExpander& expander);

  /// zero3: adds the gathers of a microbatch. They wait for the layers that must be done before, without
  /// tasks in between: a task that takes no time would decide who comes first where several are ready.
  void add_before_use(const BoundStrategy& strategy, std::int32_t microbatch);
  /// zero1, zero2 with gathers in forward: adds them for the first microbatch, each before the first use of
  /// its weight. Gathers for the first layers of each stage wait for nothing. Where microbatches go both
  /// ways, one gather brings a weight to the devices of both, and the first microbatch of each way waits for
  /// it.
  void add_in_forward(const BoundStrategy& strategy);
  /// Makes the first gathers of steps wait for what the device did before the last barrier; call it for all
  /// of a device's steps, in order, with those that run beside each other at once. `alone`: no other step
  /// follows them before the next barrier.
  void enter(std::span<const PipelineStep> steps, DeviceId device, bool alone);
  /// zero1, zero2: adds the gathers of an operator's weights, and a gate where each device has got them.
  /// `update`: the first task of the updates.
  void add_after_update(OperatorId owner, TaskId update, std::span<const std::int32_t> update_of_device);

 private:
  /// A gather of a stage's weight in one microbatch, and how many layers the stage is through by then.
  struct Place {
    std::int32_t stage = 0;
    bool backward = false;
    std::int32_t position = 0;  ///< of the layer, among those forward and then back
  };
  /// A device's part of a stage.
  struct Part {
    struct Done {
      std::int32_t position = 0;
      TaskId task;
    };
    std::vector<Done> done;                             ///< what ends each layer, ascending
    TaskId last_weights;                                ///< of the backward of weights
    std::vector<TaskId> first_forward, first_backward;  ///< gathers that wait for the step before
  };
  void find_layers();
  void begin(const BoundStrategy& strategy, std::int32_t microbatch);
  [[nodiscard]] std::int32_t ways() const;
  void note_layers(const BoundStrategy& strategy, std::int32_t way);
  /// What one stage does with a weight: its uses, and the layers of the first one forward and back.
  struct Uses {
    std::int32_t stage = 0;
    std::vector<UseRef> uses;
    std::int32_t forward = 0, back = 0;
  };
  [[nodiscard]] std::vector<Uses> uses_of(TensorId weight) const;
  void add(TensorId weight, std::span<const UseRef> uses, const Place& place, ReadIn readers);
  void wait_for_layers(TaskId gather, const Place& place, DeviceId device);
  void interfere();
  void connect_readers(const Wiring& wiring);
  void connect_readers(const Wiring& wiring, const BoundStrategy& strategy, std::int32_t microbatch);
  [[nodiscard]] bool is_read_in_backward(std::span<const UseRef> uses) const;
  [[nodiscard]] TaskId last_of(const PipelineStep& step, const Part& part) const;
  [[nodiscard]] std::int32_t layers_in(std::int32_t stage) const {
    return layers_[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] Part& part_of(std::int32_t stage, DeviceId device);
  [[nodiscard]] bool broadcasts() const;
  void broadcast_in_turn();

  StrategyExpander& expander_;
  const PlanContents& contents_;
  const ExpandedStrategy& made_;
  std::vector<std::int32_t> layer_of_;   // by operator, numbered from 0 in each stage
  std::vector<std::int32_t> needed_by_;  // by operator: the layer whose backward is the first to need it
  std::vector<std::int32_t> layers_;     // by stage
  std::vector<bool> stays_;              // by tensor: from forward to backward; empty: none does so alone
  std::optional<UsedDevices> devices_;   // all microbatches have the same ones
  std::vector<Part> parts_;              // of the first microbatch, by stage and used device
  // By device: the last tasks of the step before, or of the steps that ran beside each other.
  std::vector<std::vector<TaskId>> steps_before_;
  std::vector<std::pair<Place, std::size_t>> in_forward_;  // gathers, with their wirings
  StreamEnds streams_;                                     // of broadcasts
  // These two belong to the microbatch that is being added.
  const BoundStrategy* now_ = nullptr;
  std::int32_t microbatch_ = 0;
};

}  // namespace pipesim
