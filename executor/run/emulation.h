#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "executor/backend/backend.h"
#include "executor/run/pace.h"
#include "sim/task_dag.h"

namespace pipesim {

/// A device of any kind that computes nothing and keeps nothing: for running a plan's order and messages
/// without its hardware. Counts memory as a real one would.
class EmulatedBackend : public ThreadBackend {
 public:
  /// `real_time`: ask for SCHED_FIFO, so that threads whose time has come do not wait for others.
  explicit EmulatedBackend(bool real_time = false) : real_time_(real_time) {}
  [[nodiscard]] std::string name() const override { return "emulated"; }
  [[nodiscard]] bool computes() const override { return false; }
  void require_kernel(const Operator& op) const override;
  void require_ring(const Operator& op) const override;
  void require_optimizer(const Optimizer& optimizer) const override;
  [[nodiscard]] std::int64_t saved_bytes(const Operator& op, std::span<const Range> ranges) const override;
  /// A ThreadExecution.
  [[nodiscard]] std::unique_ptr<Execution> make_execution(const ExecutionParts& parts) override;
  void enter(DeviceId device) override;
  [[nodiscard]] std::byte* allocate(DeviceId device, Bytes size) override;
  void release(DeviceId device, std::byte* memory, Bytes size) override;
  void move(DeviceId device, const MoveList& moves, const Memory& memory) override;
  void compute(DeviceId device, const ComputeWork& work, const Memory& memory,
               const StepContext& step) override;
  void update(DeviceId device, const UpdateWork& work, const Memory& memory,
              const StepContext& step) override;
  void communicate(DeviceId device, const CommunicationWork& work, const Memory& memory, Communicator& world,
                   std::int64_t tag) override;

 private:
  bool real_time_;
  std::byte nothing_{};
};

/// Makes instructions take as long as their tasks were predicted to take. Ends are chained: the end of a task
/// is the latest end of the tasks that it waited for plus its duration, so late wake-ups of threads do not
/// add up. Lanes are given to tasks in dispatch order, as in the simulator. The members of a communication
/// task tell each other by a message when all are ready.
class EmulatedPace : public Pace {
 public:
  enum class Sleep : std::uint8_t {
    UntilDeadline,  ///< ends come to pass on the machine's clock
    Never           ///< a virtual clock
  };
  /// `slow`: by device id, factor on the durations of its compute tasks. All devices of `dag` run in this
  /// process.
  EmulatedPace(const TaskDag& dag, std::span<const TaskId> order, std::vector<double> slow, Sleep sleep);

  void begin_step() override;
  Nanoseconds begin(DeviceId device, const Instruction& instruction, Nanoseconds ready, Communicator& world,
                    std::int64_t tag) override;
  Nanoseconds end(DeviceId device, const Instruction& instruction, Nanoseconds begun) override;
  /// The machine's clock, unless it is a virtual one.
  [[nodiscard]] Nanoseconds observed(Nanoseconds time) const override;
  [[nodiscard]] bool interruptible() const override { return false; }

 private:
  // Tasks that hold a lane, in dispatch order.
  struct Lane {
    std::vector<TaskId> tasks;
    std::size_t next = 0;  // the first that has no place yet
    Nanoseconds free = 0;
  };
  // A thread that waits for a task's place. It is woken when it can go on: waking all of them for each task
  // takes longer than many tasks do.
  struct Waiting {
    TaskId task;
    std::condition_variable woken = {};
  };
  [[nodiscard]] bool may_go_on(TaskId task) const;
  Nanoseconds place(TaskId task, Nanoseconds ready, double factor);

  const TaskDag& dag_;
  std::vector<double> slow_;
  Sleep sleep_;
  std::mutex mutex_;
  std::vector<Waiting*> waiting_;
  std::vector<Lane> lanes_;
  std::vector<Nanoseconds> start_;  // by task; −1: no place yet
  std::int64_t origin_ = 0;
};

}  // namespace pipesim
