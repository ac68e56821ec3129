#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/run/execution.h"

namespace pipesim {

/// One thread for each list of each device, which stay for all steps.
class ThreadExecution : public Execution {
 public:
  ThreadExecution(ThreadBackend& backend, const ExecutionParts& parts);
  ~ThreadExecution() override;
  ThreadExecution(const ThreadExecution&) = delete;
  ThreadExecution& operator=(const ThreadExecution&) = delete;

  StepRecord run(const StepContext& context, const std::function<void()>& inspect) override;
  void fill(const View& view, const std::function<void(const HostPiece&)>& fill) override;
  void read(const View& view, const std::function<void(const HostPiece&)>& look) const override;
  [[nodiscard]] MeasuredMemory measured_memory(DeviceId device) const override {
    return buffers_.measured(device);
  }
  void on_task(std::function<void(DeviceId, TaskId)> callback) override { on_task_ = std::move(callback); }

 private:
  struct List {
    DeviceId device;
    std::int32_t number = 0;
    const std::vector<Instruction>* instructions = nullptr;
    std::vector<InstructionTime> times;
    std::int64_t involuntary_switches = 0;
    // The rest is guarded by the device's mutex. When a task ends, only the lists that wait for it are woken:
    // a device has many lists, and waking all of them takes longer than small tasks do.
    std::optional<TaskId> waits_for;
    std::condition_variable woken;
  };
  // What the lists of a device share.
  struct DeviceState {
    std::mutex mutex;
    std::vector<List*> lists;
    std::vector<Nanoseconds> end;  // by task; −1: not yet
  };

  void stop();
  void work(List& list);
  void begin_together(std::int64_t step);
  void run_list(List& list);
  void do_work(DeviceId device, const Work& work, Communicator& world, std::int64_t tag);
  InstructionTime run_instruction(List& list, const Instruction& instruction);
  Nanoseconds wait_for(List& list, const std::vector<TaskId>& tasks);
  void fail(const std::exception_ptr& error);

  const Program& program_;
  ThreadBackend& backend_;
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
