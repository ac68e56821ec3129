#include "executor/measuring/task_durations.h"

#include <map>
#include <tuple>

namespace pipesim {
namespace {

class DurationTable {
 public:
  DurationTable(const ExpandedStrategy& expanded, KeyPlace place)
      : graph_(expanded.contents().graph()),
        costs_(expanded.contents().costs()),
        optimizer_(expanded.contents().options().optimizer),
        sharding_(expanded.contents().options().state_sharding),
        tasks_(expanded.graph()),
        place_(place) {
    table_.unit_of_task.assign(tasks_.dag.num_tasks(), -1);
  }

  void add(DeviceId device, const Instruction& instruction) {
    if (table_.unit_of_task[instruction.task.index()] >= 0) return;  // another member of a transfer
    if (const auto* work = std::get_if<ComputeWork>(&instruction.work)) {
      add_pass(device, instruction.task, *work);
    } else if (const auto* update = std::get_if<UpdateWork>(&instruction.work)) {
      add_update(device, instruction.task, *update);
    } else if (const auto* transfer = std::get_if<CommunicationWork>(&instruction.work)) {
      add_transfer(instruction.task, *transfer);
    }
  }

  TaskDurations take() { return std::move(table_); }

 private:
  // The n-th time that a stage of a pass of a shard comes along, it belongs to the n-th such pass.
  // Blocks of a ring stand for themselves.
  void add_pass(DeviceId device, TaskId task, const ComputeWork& work) {
    if (work.first_segment == work.end_segment) return;
    if (work.block >= 0) {
      add_pass_unit(device, work);
      return give(task, table_.units.size() - 1);
    }
    const std::size_t nth = seen_[{work.op, work.pass, device, work.first_segment}]++;
    std::vector<std::size_t>& passes = passes_[{work.op, work.pass, device}];
    if (nth == passes.size()) {
      passes.push_back(table_.units.size());
      add_pass_unit(device, work);
    }
    give(task, passes[nth]);
  }

  void add_pass_unit(DeviceId device, const ComputeWork& work) {
    const Operator& op = graph_.op(work.op);
    const KernelWork kernel = shard_kernel(graph_, op, work.pass, work.ranges).work;
    add_unit(operator_key(graph_, op, work.pass, work.ranges, place(device), neighbours(device)), kernel,
             device, [&] { return costs_.operator_estimate(graph_, op, work.pass, work.ranges, device); });
  }

  void add_update(DeviceId device, TaskId task, const UpdateWork& work) {
    const auto kept = [&](TensorId w) { return sharding_.kept_type(graph_.tensor(w).type); };
    UpdatedWeights updated(optimizer_, kept(work.weights.front().weight));
    for (const WeightUpdate& w : work.weights)
      updated.add(w.value.box.elements(), shape_of_weight(graph_, w.weight, kept(w.weight)));
    add_unit(update_key(optimizer_, updated.elements, updated.type, place(device), neighbours(device)), {},
             device, [&] { return costs_.update_estimate(updated, device); });
    give(task, table_.units.size() - 1);
  }

  void add_transfer(TaskId task, const CommunicationWork& work) {
    const Bytes size = tasks_.labels[task.index()].size;
    const auto devices = static_cast<std::int64_t>(work.group.size());
    add_unit(transfer_key(work.kind, devices, size, work.type, link_class(costs_.topology(), work.group)), {},
             work.group.front(), [&] {
               const CollectivePlan plan = costs_.plan_collective(work.kind, work.group);
               return Estimate{plan.duration_at(size), plan.source_at(size)};
             });
    give(task, table_.units.size() - 1);
  }

  template <class MakeEstimate>
  void add_unit(CalibrationKey key, const KernelWork& work, DeviceId device, MakeEstimate estimate) {
    const auto [at, fresh] = keys_.try_emplace(std::move(key), table_.keys.size());
    if (fresh) table_.keys.push_back({at->first, work, estimate()});
    table_.units.push_back({at->second, device, {}});
  }

  void give(TaskId task, std::size_t unit) {
    table_.units[unit].tasks.push_back(task);
    table_.unit_of_task[task.index()] = static_cast<std::int32_t>(unit);
  }

  [[nodiscard]] std::string place(DeviceId device) const {
    const std::string_view measured = costs_.calibrated_place(device);
    const bool known = place_ == KeyPlace::Calibration && !measured.empty();
    return known ? std::string(measured) : costs_.topology().kind(device).name;
  }

  [[nodiscard]] std::int32_t neighbours(DeviceId device) const { return costs_.busy_neighbours(device); }

  const OperatorGraph& graph_;
  const CostModel& costs_;
  Optimizer optimizer_;
  const StateSharding& sharding_;
  const TaskGraph& tasks_;
  KeyPlace place_;
  TaskDurations table_;
  std::map<CalibrationKey, std::size_t> keys_;
  std::map<std::tuple<OperatorId, Pass, DeviceId, std::size_t>, std::size_t> seen_;
  std::map<std::tuple<OperatorId, Pass, DeviceId>, std::vector<std::size_t>> passes_;
};

}  // namespace

TaskDurations task_durations(const ExpandedStrategy& expanded, const Program& program, KeyPlace place) {
  DurationTable table(expanded, place);
  for (const DeviceProgram& device : program.devices) {
    for (const Instruction& i : device.compute) table.add(device.device, i);
    for (const auto& stream : device.streams) {
      for (const Instruction& i : stream) table.add(device.device, i);
    }
  }
  return table.take();
}

}  // namespace pipesim
