#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "taskgraph/expansion/expanded_strategy.h"
#include "taskgraph/proofs/steady_state.h"

namespace pipesim {

/// Tasks of a strategy and when they run, as Evaluator makes them.
struct Simulation {
  explicit Simulation(std::shared_ptr<const PlanContents> of)
      : contents(std::move(of)), expanded(*contents) {}
  std::shared_ptr<const PlanContents> contents;
  ExpandedStrategy expanded;
  Timeline timeline;
  std::shared_ptr<const Folding> folding;  ///< of what is expanded; nullptr: it is not folded
  SteadyState steady;                      ///< without windows: all microbatches were simulated
};

/// The part of an iteration that was simulated, and how the rest follows from it: devices stand for others
/// like them, and windows of the timeline come again. A copy is the same part. It stays as it is for as long
/// as it is kept, whatever is evaluated meanwhile; the graph and the cost model must outlive it. It is for
/// the thread of its Evaluator, which makes its next tasks in the same memory once no copy is left.
class SimulatedPart {
 public:
  explicit SimulatedPart(std::shared_ptr<const Simulation> of) : of_(std::move(of)) {}

  [[nodiscard]] const PlanContents& contents() const { return *of_->contents; }
  [[nodiscard]] const OperatorGraph& graph() const { return contents().graph(); }
  [[nodiscard]] const CostModel& costs() const { return contents().costs(); }
  [[nodiscard]] const Topology& topology() const { return costs().topology(); }

  [[nodiscard]] const ExpandedStrategy& expanded() const { return of_->expanded; }
  [[nodiscard]] const TaskGraph& task_graph() const { return of_->expanded.graph(); }
  [[nodiscard]] const TaskDag& dag() const { return of_->expanded.dag(); }
  /// By task; empty where no labels were asked for.
  [[nodiscard]] const std::vector<TaskLabel>& labels() const { return task_graph().labels; }
  /// Empty where nothing was simulated.
  [[nodiscard]] const Timeline& timeline() const { return of_->timeline; }
  /// nullptr: all devices were simulated.
  [[nodiscard]] const Folding* folding() const { return of_->folding.get(); }
  /// Without windows: all microbatches were simulated, or few that prove nothing about the others.
  [[nodiscard]] const SteadyState& steady() const { return of_->steady; }

  [[nodiscard]] bool is_all() const { return folding() == nullptr && steady().windows.empty(); }
  [[nodiscard]] DeviceId stands_for(DeviceId device) const {
    return folding() ? folding()->stands_for(device) : device;
  }
  [[nodiscard]] LaneId stands_for(LaneId lane) const {
    return folding() ? folding()->stands_for(lane) : lane;
  }
  /// How long an iteration spends in [begin, end) of the timeline, each time that it comes.
  [[nodiscard]] Nanoseconds time_spent(Nanoseconds begin, Nanoseconds end) const;
  /// How often an iteration does what begins at this moment.
  [[nodiscard]] std::int64_t times(Nanoseconds begin) const;
  [[nodiscard]] Nanoseconds makespan() const { return steady().time_of(timeline().makespan); }
  /// By device: the number of devices that it stands for, 0 where another stands for it.
  [[nodiscard]] std::vector<std::int64_t> devices_alike() const;

 private:
  std::shared_ptr<const Simulation> of_;
};

}  // namespace pipesim
