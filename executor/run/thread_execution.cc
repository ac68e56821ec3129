#include "executor/run/thread_execution.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <system_error>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// Thrown by lists that stop because another one failed.
struct Stopped {};

std::int64_t involuntary_switches_of_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

ThreadExecution::ThreadExecution(ThreadBackend& backend, const ExecutionParts& parts)
    : program_(parts.program),
      backend_(backend),
      pace_(parts.pace),
      worlds_(parts.worlds.begin(), parts.worlds.end()),
      buffers_(program_, backend, parts.num_devices, parts.describe),
      num_tasks_(parts.num_tasks) {
  for (std::size_t d = 0; d < parts.num_devices; ++d) states_.push_back(nullptr);
  for (const DeviceProgram& device : program_.devices) {
    DeviceState& state = *(states_[device.device.index()] = std::make_unique<DeviceState>());
    const auto add = [&](const std::vector<Instruction>& instructions) {
      if (instructions.empty()) return;
      List& list = *lists_.emplace_back(std::make_unique<List>());
      list.device = device.device;
      list.number = static_cast<std::int32_t>(lists_.size()) - 1;
      list.instructions = &instructions;
      state.lists.push_back(&list);
    };
    add(device.compute);
    for (const std::vector<Instruction>& stream : device.streams) add(stream);
  }
  try {
    for (const auto& list : lists_) threads_.emplace_back([this, &list = *list] { work(list); });
  } catch (const std::system_error& error) {
    stop();
    throw InputError(
        fmt::format("the plan needs {} threads here, and the system refuses more than {} ({}); run a plan "
                    "for fewer devices, "
                    "or allow more threads and memory (ulimit -u, ulimit -v)",
                    lists_.size(), threads_.size(), error.what()));
  } catch (...) {
    stop();
    throw;
  }
}

ThreadExecution::~ThreadExecution() { stop(); }

void ThreadExecution::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  step_begins_.notify_all();
  for (std::thread& t : threads_) t.join();
}

StepRecord ThreadExecution::run(const StepContext& context, const std::function<void()>& inspect) {
  if (error_) std::rethrow_exception(error_);
  buffers_.begin_step();
  for (const DeviceProgram& device : program_.devices)
    states_[device.device.index()]->end.assign(num_tasks_, -1);
  context_ = context;
  std::unique_lock lock(mutex_);
  lists_running_ = lists_.size();
  lists_awake_ = 0;
  ++steps_begun_;
  step_begins_.notify_all();
  list_ends_.wait(lock, [this] { return lists_running_ == 0; });
  lock.unlock();
  if (error_) std::rethrow_exception(error_);
  if (inspect) inspect();
  for (const Program::Result& r : program_.results)
    buffers_.release(program_.buffers[r.view.buffer.index()].device, std::span(&r.view.buffer, 1));
  StepRecord record;
  for (const auto& list : lists_) {
    record.times.insert(record.times.end(), list->times.begin(), list->times.end());
    record.involuntary_switches += list->involuntary_switches;
  }
  for (const InstructionTime& t : record.times) record.makespan = std::max(record.makespan, t.end);
  return record;
}

void ThreadExecution::fill(const View& view, const std::function<void(const HostPiece&)>& fill) {
  fill(host_piece(view, buffers_));
}

void ThreadExecution::read(const View& view, const std::function<void(const HostPiece&)>& look) const {
  look(host_piece(view, buffers_));
}

void ThreadExecution::work(List& list) {
  try {
    backend_.enter(list.device);
  } catch (...) {
    fail(std::current_exception());
  }
  for (std::int64_t steps = 0;; ++steps) {
    {
      std::unique_lock lock(mutex_);
      step_begins_.wait(lock, [&] { return stopping_ || steps_begun_ > steps; });
      if (stopping_) return;
    }
    begin_together(steps);
    try {
      run_list(list);
    } catch (const Stopped&) {
    } catch (...) {
      fail(std::current_exception());
    }
    const std::lock_guard lock(mutex_);
    if (--lists_running_ == 0) list_ends_.notify_all();
  }
}

// The last list to wake up opens the step: how long threads take to wake is no part of an iteration.
void ThreadExecution::begin_together(std::int64_t step) {
  if (++lists_awake_ == lists_.size()) {
    pace_.begin_step();
    steps_open_ = step + 1;
  }
  while (steps_open_ <= step) std::this_thread::yield();
}

void ThreadExecution::run_list(List& list) {
  const bool interruptible = pace_.interruptible();
  const std::int64_t before = involuntary_switches_of_thread();
  std::int64_t switches = before;
  list.times.clear();
  for (const Instruction& instruction : *list.instructions) {
    InstructionTime time = run_instruction(list, instruction);
    const std::int64_t now = interruptible ? involuntary_switches_of_thread() : before;
    time.interrupted = now != switches;
    switches = now;
    list.times.push_back(time);
  }
  list.involuntary_switches = switches - before;
}

InstructionTime ThreadExecution::run_instruction(List& list, const Instruction& instruction) {
  const DeviceId device = list.device;
  const Nanoseconds ready = wait_for(list, instruction.waits);
  if (on_task_) on_task_(device, instruction.task);
  Communicator& world = *worlds_[device.index()];
  const std::int64_t tag = context_.step * static_cast<std::int64_t>(num_tasks_) + instruction.task.value;
  const Nanoseconds begun = pace_.begin(device, instruction, ready, world, tag);
  InstructionTime time{instruction.task, device, pace_.observed(begun), 0, ready, list.number, false};
  buffers_.acquire(device, instruction.buffers);
  if (!instruction.before.empty()) backend_.move(device, instruction.before, buffers_);
  do_work(device, instruction.work, world, tag);
  if (!instruction.after.empty()) backend_.move(device, instruction.after, buffers_);
  buffers_.release(device, instruction.buffers);
  const Nanoseconds end = pace_.end(device, instruction, begun);
  time.end = pace_.observed(end);
  DeviceState& state = *states_[device.index()];
  const std::lock_guard lock(state.mutex);
  state.end[instruction.task.index()] = end;
  for (List* other : state.lists) {
    if (other->waits_for == instruction.task) other->woken.notify_one();
  }
  return time;
}

void ThreadExecution::do_work(DeviceId device, const Work& work, Communicator& world, std::int64_t tag) {
  if (const auto* communication = std::get_if<CommunicationWork>(&work)) {
    backend_.communicate(device, *communication, buffers_, world, tag);
  } else if (const auto* compute = std::get_if<ComputeWork>(&work)) {
    StepContext context = context_;
    context.microbatch = compute->microbatch;
    backend_.compute(device, *compute, buffers_, context);
  } else if (const auto* update = std::get_if<UpdateWork>(&work)) {
    backend_.update(device, *update, buffers_, context_);
  }
}

// The latest end of the tasks, all of which other lists of the device run.
Nanoseconds ThreadExecution::wait_for(List& list, const std::vector<TaskId>& tasks) {
  Nanoseconds latest = 0;
  if (failed_) throw Stopped();
  if (tasks.empty()) return latest;
  DeviceState& state = *states_[list.device.index()];
  std::unique_lock lock(state.mutex);
  for (const TaskId t : tasks) {
    list.waits_for = t;
    list.woken.wait(lock, [&] { return failed_ || state.end[t.index()] >= 0; });
    list.waits_for.reset();
    if (failed_) throw Stopped();
    latest = std::max(latest, state.end[t.index()]);
  }
  return latest;
}

void ThreadExecution::fail(const std::exception_ptr& error) {
  std::string reason = "a device failed";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    reason = e.what();
  }
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  failed_ = true;
  for (const DeviceProgram& device : program_.devices) {
    DeviceState& state = *states_[device.device.index()];
    const std::lock_guard lock(state.mutex);  // nobody is between looking and waiting
    for (List* list : state.lists) list->woken.notify_one();
  }
  for (const DeviceProgram& device : program_.devices) worlds_[device.device.index()]->abort(reason);
}

}  // namespace pipesim
