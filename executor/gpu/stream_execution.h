#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "executor/gpu/gpu_backend.h"

namespace pipesim::gpu {

/// A program whose lists are streams. One thread gives the instructions to them in the order in which the
/// tasks were dispatched, so that all members of a collective come to it in one order everywhere and nothing
/// deadlocks (Barham et al., "Pathways", MLSys 2022, section 4); waits between lists are events. Nobody waits
/// for a device before the step ends.
class StreamExecution : public Execution {
 public:
  StreamExecution(const GpuBackend& backend, const ExecutionParts& parts);
  ~StreamExecution() override;
  StreamExecution(const StreamExecution&) = delete;
  StreamExecution& operator=(const StreamExecution&) = delete;

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
    std::int32_t number;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> done;  // with what was recorded
  };
  // An instruction where it runs, and its events of this step.
  struct Placed {
    const Instruction* instruction;
    List* list;
    std::unique_ptr<Event> begin, end;
    std::vector<const Placed*> waits;
    std::uint64_t number;  // in dispatch order, from 1
    bool awaited = false;  // by another list
  };
  // What the lists of a device share.
  struct Device {
    DeviceId id;
    DeviceStep* step = nullptr;  // in its memory
    std::unique_ptr<Event> origin;
    std::vector<List*> lists;
  };

  [[nodiscard]] std::string refused_memory(DeviceId device, const ExecutionParts& parts) const;
  void place(const DeviceProgram& program);
  void find_awaited();
  StepRecord repeat(const StepContext& context);
  void for_each_instruction(const std::function<void(const Placed&)>& visit) const;
  void begin_step(const StepContext& context);
  [[nodiscard]] std::unique_ptr<Gate> begin_together();
  void let_all_wait_for_first();
  void record_step(const StepContext& context);
  void give_all(const StepContext& context);
  [[nodiscard]] static bool communicates(const Placed& placed) {
    return std::holds_alternative<CommunicationWork>(placed.instruction->work);
  }
  [[nodiscard]] ActivityCollector* watching(const Placed& placed) const;
  void begin(const Placed& placed);
  void end(const Placed& placed);
  void communicate(std::span<const Placed> members);
  [[nodiscard]] CollectiveMember member_of(const Placed& placed) const;
  void finish();
  [[nodiscard]] StepRecord times() const;
  [[nodiscard]] std::vector<InstructionTime> times_by_events() const;
  void refine(std::vector<InstructionTime>& times) const;
  [[nodiscard]] Nanoseconds at(const Device& device, const Event& event) const;
  void free_results();

  const Program& program_;
  const GpuBackend& backend_;
  Machine& machine_;
  BufferTable buffers_;
  std::vector<std::unique_ptr<List>> lists_;
  std::vector<std::unique_ptr<Device>> devices_;           // those of the program
  std::map<DeviceId, Device*> device_;                     // by id
  std::vector<std::vector<Placed>> placed_;                // by task, those of this process
  std::map<DeviceId, std::unique_ptr<Stream>> transfers_;  // for filling and reading between steps
  std::unique_ptr<Event> go_, before_, after_;
  std::int64_t steps_ = 0;
  std::unique_ptr<Recording> recording_;
  bool records_ = false;  // the recording is being made
  std::function<void(DeviceId, TaskId)> on_task_;
  bool failed_ = false;
};

}  // namespace pipesim::gpu
