#include "executor/run/emulation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "executor/backend/cores.h"
#include "executor/run/thread_execution.h"
#include "models/box.h"

namespace pipesim {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void EmulatedBackend::require_kernel(const Operator& /*op*/) const {}
void EmulatedBackend::require_ring(const Operator& /*op*/) const {}
// Its programs have the buffers of a step.
void EmulatedBackend::require_optimizer(const Optimizer& optimizer) const { require_steps(optimizer); }

std::int64_t EmulatedBackend::saved_bytes(const Operator& op, std::span<const Range> ranges) const {
  return static_cast<std::int64_t>(evaluate(op.saved_extra_bytes, ranges));
}

std::unique_ptr<Execution> EmulatedBackend::make_execution(const ExecutionParts& parts) {
  return std::make_unique<ThreadExecution>(*this, parts);
}

void EmulatedBackend::enter(DeviceId /*device*/) {
  if (real_time_) run_in_real_time();
}

std::byte* EmulatedBackend::allocate(DeviceId /*device*/, Bytes /*size*/) { return &nothing_; }

void EmulatedBackend::release(DeviceId /*device*/, std::byte* /*memory*/, Bytes /*size*/) {}

void EmulatedBackend::move(DeviceId /*device*/, const MoveList& /*moves*/, const Memory& /*memory*/) {}

void EmulatedBackend::compute(DeviceId /*device*/, const ComputeWork& /*work*/, const Memory& /*memory*/,
                              const StepContext& /*step*/) {}

void EmulatedBackend::update(DeviceId /*device*/, const UpdateWork& /*work*/, const Memory& /*memory*/,
                             const StepContext& /*step*/) {}

void EmulatedBackend::communicate(DeviceId /*device*/, const CommunicationWork& /*work*/,
                                  const Memory& /*memory*/, Communicator& /*world*/, std::int64_t /*tag*/) {}

EmulatedPace::EmulatedPace(const TaskDag& dag, std::span<const TaskId> order, std::vector<double> slow,
                           Sleep sleep)
    : dag_(dag), slow_(std::move(slow)), sleep_(sleep), lanes_(dag.num_lanes()) {
  for (const TaskId t : order) {
    for (const LaneUse& use : dag.lanes(t)) lanes_[use.lane.index()].tasks.push_back(t);
  }
}

void EmulatedPace::begin_step() {
  const std::lock_guard lock(mutex_);
  for (Lane& lane : lanes_) lane.next = 0, lane.free = 0;
  start_.assign(dag_.num_tasks(), -1);
  origin_ = Clock::now().time_since_epoch().count();
}

// It has its place, or gets one now, being the next of all its lanes.
bool EmulatedPace::may_go_on(TaskId task) const {
  if (start_[task.index()] >= 0) return true;
  for (const LaneUse& use : dag_.lanes(task)) {
    const Lane& lane = lanes_[use.lane.index()];
    if (lane.tasks[lane.next] != task) return false;
  }
  return true;
}

// The first member to come gives the task its place; the others read it.
Nanoseconds EmulatedPace::place(TaskId task, Nanoseconds ready, double factor) {
  std::unique_lock lock(mutex_);
  Nanoseconds& start = start_[task.index()];
  if (!may_go_on(task)) {
    Waiting own{task};
    waiting_.push_back(&own);
    own.woken.wait(lock, [&] { return may_go_on(task); });
    std::erase(waiting_, &own);
  }
  if (start >= 0) return start;
  Nanoseconds first = ready;
  for (const LaneUse& use : dag_.lanes(task)) first = std::max(first, lanes_[use.lane.index()].free);
  for (const LaneUse& use : dag_.lanes(task)) {
    Lane& lane = lanes_[use.lane.index()];
    lane.free = first + static_cast<Nanoseconds>(std::llround(static_cast<double>(use.hold) * factor));
    ++lane.next;
  }
  start = first;
  for (Waiting* other : waiting_) {
    if (may_go_on(other->task)) other->woken.notify_one();
  }
  return first;
}

Nanoseconds EmulatedPace::begin(DeviceId device, const Instruction& instruction, Nanoseconds ready,
                                Communicator& world, std::int64_t tag) {
  const auto* communication = std::get_if<CommunicationWork>(&instruction.work);
  if (!communication) return place(instruction.task, ready, slow_[device.index()]);
  std::vector<int> members;
  for (const DeviceId d : communication->group) members.push_back(d.value);
  world.group(members)->all_reduce(&ready, 1, DataType::Int64, ReduceOperation::Max, tag);
  return place(instruction.task, ready, 1);
}

Nanoseconds EmulatedPace::end(DeviceId device, const Instruction& instruction, Nanoseconds begun) {
  const bool communicates = std::holds_alternative<CommunicationWork>(instruction.work);
  const double factor = communicates ? 1 : slow_[device.index()];
  const auto duration = static_cast<double>(dag_.duration(instruction.task)) * factor;
  const Nanoseconds end = begun + static_cast<Nanoseconds>(std::llround(duration));
  if (sleep_ == Sleep::UntilDeadline)
    std::this_thread::sleep_until(Clock::time_point(Clock::duration(origin_ + end)));
  return end;
}

Nanoseconds EmulatedPace::observed(Nanoseconds time) const {
  return sleep_ == Sleep::Never ? time : Clock::now().time_since_epoch().count() - origin_;
}

}  // namespace pipesim
