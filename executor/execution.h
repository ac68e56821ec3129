#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "executor/buffer_table.h"
#include "executor/pace.h"
#include "sim/timeline.h"

namespace pipesim {

/// When an instruction ran on its device; of a collective, `start` is when this member came to it.
struct InstructionTime {
  TaskId task;
  DeviceId device;
  Nanoseconds start = 0, end = 0;
  Nanoseconds ready = 0;     ///< when all that it waits for was done
  std::int32_t list = 0;     ///< its thread's number; instructions of one list follow each other
  bool interrupted = false;  ///< the system took the processor away meanwhile, from this member
};

/// What one step was like.
struct StepRecord {
  std::vector<InstructionTime> times;
  Nanoseconds makespan = 0;  ///< until the last instruction ended
  std::int64_t involuntary_switches =
      0;  ///< times that the system took the processor from one of our threads
  /// By task id: when the last member came to it, and when it was over. Tasks of other processes: 0.
  [[nodiscard]] Timeline timeline(std::size_t num_tasks) const;
};

/// Runs a program: one thread for each list of each device, which stay for all steps.
class Execution {
 public:
  /// `worlds`: by device id, a communicator of all devices for each device of the program, which may be
  /// shared by the device's threads. `before_step` runs between steps, when all threads rest. All must
  /// outlive this.
  Execution(const Program& program, Backend& backend, Pace& pace, std::span<Communicator* const> worlds,
            std::size_t num_tasks, BufferTable::Describe describe);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Runs one step. Rethrows what the first list threw that failed, after all lists have stopped; no step is
  /// possible then. `inspect`, if given, sees the results before their buffers are freed.
  StepRecord run(const StepContext& context, const std::function<void(const Memory&)>& inspect = {});

  [[nodiscard]] const Memory& memory() const { return buffers_; }
  [[nodiscard]] MeasuredMemory measured_memory(DeviceId device) const { return buffers_.measured(device); }
  /// Called before every instruction with a device and its task: for messages about what was running.
  void on_task(std::function<void(DeviceId, TaskId)> callback) { on_task_ = std::move(callback); }

 private:
  // What the lists of a device share.
  struct DeviceState {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Nanoseconds> end;  // by task; −1: not yet
  };
  struct List {
    DeviceId device;
    std::int32_t number;
    const std::vector<Instruction>* instructions;
    std::vector<InstructionTime> times;
    std::int64_t involuntary_switches = 0;
  };

  void work(List& list);
  void begin_together(std::int64_t step);
  void run_list(List& list);
  void do_work(DeviceId device, const Work& work, Communicator& world, std::int64_t tag);
  InstructionTime run_instruction(DeviceId device, const Instruction& instruction);
  Nanoseconds wait_for(DeviceState& state, const std::vector<TaskId>& tasks);
  void fail(const std::exception_ptr& error);

  const Program& program_;
  Backend& backend_;
  Pace& pace_;
  std::vector<Communicator*> worlds_;
  BufferTable buffers_;
  std::vector<std::unique_ptr<DeviceState>> states_;  // by device id
  std::vector<std::unique_ptr<List>> lists_;
  std::size_t num_tasks_;
  StepContext context_;
  std::function<void(DeviceId, TaskId)> on_task_;

  std::mutex mutex_;
  std::condition_variable step_begins_, list_ends_;
  std::int64_t steps_begun_ = 0;
  std::atomic<std::int64_t> steps_open_ = 0;  // all lists are awake for so many
  std::atomic<std::size_t> lists_awake_ = 0;
  std::size_t lists_running_ = 0;
  bool stopping_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace pipesim
