#include "executor/gpu/stream_execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "sim/base/errors.h"

namespace pipesim::gpu {
namespace {

// The first dimension of several, cut so that a part has at most so many elements, or one index of it. One
// part lies behind the other.
std::vector<Box> parts_to_fill(const Box& box, std::int64_t most) {
  if (box.empty()) return {};
  std::size_t dim = 0;
  while (dim < box.dims() && box[dim].length() == 1) ++dim;
  if (dim == box.dims()) return {box};
  const std::int64_t of_one = box.elements() / box[dim].length();
  const std::int64_t step = std::max<std::int64_t>(1, most / of_one);
  std::vector<Box> parts;
  for (std::int64_t begin = box[dim].begin; begin < box[dim].end; begin += step) {
    Box& part = parts.emplace_back(box);
    part[dim] = {begin, std::min(box[dim].end, begin + step)};
  }
  return parts;
}

}  // namespace

StreamExecution::StreamExecution(const GpuBackend& backend, const ExecutionParts& parts)
    : program_(parts.program),
      backend_(backend),
      machine_(backend.machine()),
      buffers_(program_, machine_, parts.num_devices, parts.describe,
               [&](DeviceId device) { return refused_memory(device, parts); }),
      placed_(parts.num_tasks) {
  for (const DeviceProgram& device : program_.devices) place(device);
  find_awaited();
  std::set<std::vector<DeviceId>> groups;
  for_each_instruction([&](const Placed& placed) {
    if (const auto* work = std::get_if<CommunicationWork>(&placed.instruction->work))
      groups.insert(work->group);
  });
  const std::vector<std::vector<DeviceId>> all(groups.begin(), groups.end());
  backend.collectives().prepare(all);
  if (devices_.empty()) return;
  for (std::unique_ptr<Event>* event : {&go_, &before_, &after_})
    *event = machine_.make_event(devices_.front()->id);
}

StreamExecution::~StreamExecution() {
  for (const auto& list : lists_) {
    try {
      list->stream->finish();
    } catch (const std::exception&) {  // what failed was said when it did
    }
  }
  for (const auto& device : devices_)
    machine_.release(device->id, reinterpret_cast<std::byte*>(device->step), Bytes(sizeof(DeviceStep)));
}

std::string StreamExecution::refused_memory(DeviceId device, const ExecutionParts& parts) const {
  return fmt::format(
      ", and was refused; it is predicted to need {}, and {} are reported free: they may lie in pieces, or "
      "another program has taken them",
      pretty(parts.predicted[device.index()].peak), pretty(machine_.free_memory(device)));
}

void StreamExecution::place(const DeviceProgram& program) {
  Device& device = *devices_.emplace_back(std::make_unique<Device>());
  device.id = program.device;
  device_[program.device] = &device;
  std::byte* step = machine_.allocate(program.device, Bytes(sizeof(DeviceStep)));
  if (step == nullptr) throw DeviceError("out of memory: not even the number of a step");
  device.step = reinterpret_cast<DeviceStep*>(step);
  device.origin = machine_.make_event(program.device);
  transfers_[program.device] = machine_.make_stream(program.device, StreamUse::Communication);
  const auto add = [&](const std::vector<Instruction>& instructions, StreamUse use) {
    if (instructions.empty()) return;
    List& list = *lists_.emplace_back(std::make_unique<List>(
        List{program.device, static_cast<std::int32_t>(lists_.size()),
             machine_.make_stream(program.device, use), machine_.make_event(program.device)}));
    device.lists.push_back(&list);
    for (const Instruction& i : instructions) {
      std::vector<Placed>& members = placed_[i.task.index()];
      members.push_back(
          {&i, &list, machine_.make_event(program.device), machine_.make_event(program.device), {}, 0});
    }
  };
  add(program.compute, StreamUse::Compute);
  for (const std::vector<Instruction>& stream : program.streams) add(stream, StreamUse::Communication);
}

// This runs when placed_ is complete, so that its elements move no more.
void StreamExecution::find_awaited() {
  const auto on_device = [&](TaskId task, DeviceId device) {
    return &*std::ranges::find_if(placed_[task.index()],
                                  [&](const Placed& p) { return p.list->device == device; });
  };
  for (std::vector<Placed>& members : placed_) {
    for (Placed& placed : members) {
      for (const TaskId task : placed.instruction->waits) {
        Placed* awaited = on_device(task, placed.list->device);
        placed.waits.push_back(awaited);
        awaited->awaited = awaited->awaited || awaited->list != placed.list;
      }
    }
  }
  std::uint64_t number = 0;
  for (const TaskId task : program_.order) {
    for (Placed& placed : placed_[task.index()]) placed.number = ++number;
  }
}

StepRecord StreamExecution::run(const StepContext& context, const std::function<void()>& inspect) {
  if (failed_) throw DeviceError("a step was asked for after one that failed");
  StepRecord record;
  try {
    // The first step shows libraries what is coming: what they choose and allocate then is not recorded.
    const bool repeats = backend_.settings().recorded && steps_++ > 0 && !lists_.empty();
    begin_step(context);
    if (repeats) {
      record = repeat(context);
    } else {
      ActivityCollector* activity = backend_.settings().activity;
      const bool collects = activity != nullptr && activity->start();
      const std::unique_ptr<Gate> gate = begin_together();
      give_all(context);
      const bool outran_host = gate && !gate->open();
      finish();
      if (collects) activity->stop();
      record = times();
      record.outran_host = outran_host;
    }
    if (inspect) inspect();
  } catch (const std::exception& error) {
    failed_ = true;
    recording_.reset();  // communicators that it holds can't be aborted
    backend_.collectives().abort(error.what());
    throw;
  }
  free_results();
  return record;
}

StepRecord StreamExecution::repeat(const StepContext& context) {
  Stream& first = *lists_.front()->stream;
  finish();
  if (!recording_) {
    record_step(context);
  } else {
    for_each_instruction([&](const Placed& placed) {
      buffers_.acquire(placed.list->device, placed.instruction->buffers);
      buffers_.release(placed.list->device, placed.instruction->buffers);
    });
  }
  first.record(*before_);
  first.repeat(*recording_);
  first.record(*after_);
  finish();
  StepRecord record;
  record.makespan = machine_.time_between(*before_, *after_);
  return record;
}

// Numbers of the step, where all streams will find them.
void StreamExecution::begin_step(const StepContext& context) {
  buffers_.begin_step();
  for (const auto& device : devices_) {
    const DeviceStep step{context.seed, context.step};
    device->lists.front()->stream->upload(device->step, &step, sizeof step);
  }
}

// No stream begins before the last one has come, so that times of one device mean the same on another, nor
// before the gate opens, if there is one.
std::unique_ptr<Gate> StreamExecution::begin_together() {
  if (lists_.empty()) return nullptr;
  Stream& first = *lists_.front()->stream;
  for (const auto& device : devices_) {
    Stream& stream = *device->lists.front()->stream;
    stream.record(*device->origin);
    if (&stream != &first) first.wait(*device->origin);
  }
  const Nanoseconds hold = backend_.settings().hold;
  std::unique_ptr<Gate> gate = hold > 0 ? first.close_gate(hold) : nullptr;
  first.record(*go_);
  for (const auto& device : devices_) {
    Stream& stream = *device->lists.front()->stream;
    if (&stream != &first) stream.wait(*go_);
    stream.record(*device->origin);
    for (const List* list : device->lists) {
      if (list->stream.get() != &stream) list->stream->wait(*device->origin);
    }
  }
  return gate;
}

void StreamExecution::record_step(const StepContext& context) {
  Stream& first = *lists_.front()->stream;
  machine_.begin_recording(first);
  records_ = true;
  try {
    let_all_wait_for_first();
    give_all(context);
    for (const auto& list : lists_) {
      if (list->stream.get() == &first) continue;
      list->stream->record(*list->done);
      first.wait(*list->done);
    }
    records_ = false;
  } catch (...) {
    records_ = false;
    try {
      static_cast<void>(machine_.end_recording(first));
    } catch (const std::exception&) {  // what failed first is said
    }
    throw;
  }
  recording_ = machine_.end_recording(first);
}

void StreamExecution::let_all_wait_for_first() {
  Stream& first = *lists_.front()->stream;
  first.record(*go_);
  for (const auto& list : lists_) {
    if (list->stream.get() != &first) list->stream->wait(*go_);
  }
}

void StreamExecution::for_each_instruction(const std::function<void(const Placed&)>& visit) const {
  for (const TaskId task : program_.order) {
    for (const Placed& placed : placed_[task.index()]) visit(placed);
  }
}

void StreamExecution::give_all(const StepContext& context) {
  for (const TaskId task : program_.order) {
    const std::vector<Placed>& members = placed_[task.index()];
    if (members.empty()) continue;
    for (const Placed& placed : members) begin(placed);
    if (communicates(members.front())) {
      communicate(members);
    } else {
      for (const Placed& placed : members) {
        const TaskActivityScope scope(watching(placed), placed.number);
        Stream& stream = *placed.list->stream;
        DeviceStep* step = device_.at(placed.list->device)->step;
        if (const auto* compute = std::get_if<ComputeWork>(&placed.instruction->work)) {
          StepContext of_microbatch = context;
          of_microbatch.microbatch = compute->microbatch;
          backend_.compute(stream, *compute, buffers_, of_microbatch, step);
        } else if (const auto* update = std::get_if<UpdateWork>(&placed.instruction->work)) {
          backend_.update(stream, *update, buffers_, step);
        }
      }
    }
    for (const Placed& placed : members) end(placed);
  }
}

// Collectives are not watched: the moves around a collective would be taken for the collective itself.
ActivityCollector* StreamExecution::watching(const Placed& placed) const {
  return communicates(placed) ? nullptr : backend_.settings().activity;
}

void StreamExecution::begin(const Placed& placed) {
  const Instruction& instruction = *placed.instruction;
  const DeviceId device = placed.list->device;
  Stream& stream = *placed.list->stream;
  for (const Placed* awaited : placed.waits) {
    if (awaited->list != placed.list) stream.wait(*awaited->end);
  }
  if (on_task_) on_task_(device, instruction.task);
  if (!records_) stream.record(*placed.begin);
  const TaskActivityScope scope(watching(placed), placed.number);
  buffers_.acquire(device, instruction.buffers);
  backend_.move(stream, instruction.before, buffers_);
}

void StreamExecution::end(const Placed& placed) {
  Stream& stream = *placed.list->stream;
  {
    const TaskActivityScope scope(watching(placed), placed.number);
    backend_.move(stream, placed.instruction->after, buffers_);
  }
  // What is repeated has no times of tasks; each event would be work of the graph.
  if (!records_ || placed.awaited) stream.record(*placed.end);
  stream.free_scratch();
  buffers_.release(placed.list->device, placed.instruction->buffers);
}

CollectiveMember StreamExecution::member_of(const Placed& placed) const {
  const auto& work = std::get<CommunicationWork>(placed.instruction->work);
  const auto address = [&](const View& view) -> std::byte* {
    if (!view.present()) return nullptr;
    return buffers_.address(view.buffer) + (view.offset + work.part.begin) * bytes_per_element(work.type);
  };
  CollectiveMember member{work.rank, placed.list->stream.get(), address(work.give), address(work.get)};
  const bool root = work.rank == 0;
  if (work.kind == Collective::AllReduce || (work.kind == Collective::Reduce && root))
    member.give = member.get;
  if (work.kind == Collective::Broadcast && root) member.get = member.give;
  return member;
}

void StreamExecution::communicate(std::span<const Placed> members) {
  const auto& work = std::get<CommunicationWork>(members.front().instruction->work);
  std::vector<CollectiveMember> parts;
  for (const Placed& placed : members) parts.push_back(member_of(placed));
  backend_.collectives().run({work.kind, work.reduce, work.type, work.group, work.part.length()}, parts);
}

void StreamExecution::finish() {
  for (const auto& list : lists_) list->stream->finish();
  backend_.collectives().require_peers();
}

Nanoseconds StreamExecution::at(const Device& device, const Event& event) const {
  return machine_.time_between(*device.origin, event);
}

std::vector<InstructionTime> StreamExecution::times_by_events() const {
  std::vector<InstructionTime> times;
  for_each_instruction([&](const Placed& placed) {
    const Device& device = *device_.at(placed.list->device);
    times.push_back({placed.instruction->task, device.id, at(device, *placed.begin), at(device, *placed.end),
                     0, placed.list->number, false});
  });
  return times;
}

// What the devices' profiler saw of each instruction, numbered through from 1, on the events' clock. Events
// stay where an instruction gave a device nothing to do, and for collectives, whose members' work is given at
// once (watching()).
void StreamExecution::refine(std::vector<InstructionTime>& times) const {
  const CollectedActivity collected = backend_.settings().activity->collect();
  const Attribution found = attribute(collected.records, collected.correlations, collected.dropped);
  if (found.tasks.empty() || found.dropped > 0) return;
  const TaskActivity& first = *std::ranges::min_element(found.tasks, {}, &TaskActivity::begin);
  const Nanoseconds origin = first.begin - times.at(first.external - 1).start;
  for (const TaskActivity& task : found.tasks) {
    if (task.records == 0) continue;
    InstructionTime& time = times.at(task.external - 1);
    time.start = std::max<Nanoseconds>(0, task.begin - origin);
    time.end = std::max(time.start, task.end - origin);
  }
}

StepRecord StreamExecution::times() const {
  StepRecord record;
  record.times = times_by_events();
  const ActivityCollector* activity = backend_.settings().activity;
  if (activity != nullptr && activity->unavailable().empty()) refine(record.times);
  std::map<const Placed*, Nanoseconds> end;
  std::size_t number = 0;
  for_each_instruction([&](const Placed& placed) {
    InstructionTime& time = record.times[number++];
    for (const Placed* awaited : placed.waits) time.ready = std::max(time.ready, end.at(awaited));
    time.start = std::max(time.start, time.ready);
    time.end = std::max(time.start, time.end);
    end[&placed] = time.end;
    record.makespan = std::max(record.makespan, time.end);
  });
  // Each list's instructions follow one another as they ran.
  std::ranges::stable_sort(record.times, {},
                           [](const InstructionTime& t) { return std::pair(t.list, t.start); });
  return record;
}

void StreamExecution::free_results() {
  for (const Program::Result& r : program_.results)
    buffers_.release(program_.buffers[r.view.buffer.index()].device, std::span(&r.view.buffer, 1));
}

// In parts: pages that a large tensor takes from the system cost the host more than the numbers in them.
void StreamExecution::fill(const View& view, const std::function<void(const HostPiece&)>& fill) {
  constexpr std::int64_t most_elements = 1 << 19;
  const Buffer& buffer = buffers_.buffer(view.buffer);
  const std::int64_t width = bytes_per_element(buffer.type);
  Stream& stream = *transfers_.at(buffer.device);
  std::byte* to = buffers_.address(view.buffer) + view.offset * width;
  std::vector<std::byte> content;
  for (const Box& part : parts_to_fill(view.box, most_elements)) {
    content.resize(static_cast<std::size_t>(part.elements() * width));
    fill({content.data(), buffer.type, part});
    stream.upload(to, content.data(), content.size());
    to += content.size();
  }
  stream.finish();
}

void StreamExecution::read(const View& view, const std::function<void(const HostPiece&)>& look) const {
  const Buffer& buffer = buffers_.buffer(view.buffer);
  const std::int64_t width = bytes_per_element(buffer.type);
  std::vector<std::byte> content(static_cast<std::size_t>(view.box.elements() * width));
  transfers_.at(buffer.device)
      ->download(content.data(), buffers_.address(view.buffer) + view.offset * width, content.size());
  look({content.data(), buffer.type, view.box});
}

}  // namespace pipesim::gpu
