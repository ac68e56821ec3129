#pragma once

#include <cstdint>
#include <vector>

#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// What a task of the graph is, and where.
struct TaskRole {
  TaskKind kind = TaskKind::Forward;
  OperatorId
      op;  ///< of compute tasks, updates and exchanges inside; of barriers: whose weights were gathered
  std::vector<DeviceId> devices;
  Pass pass = Pass::Forward;  ///< of an exchange inside: the pass it belongs to
  std::int32_t microbatch = 0, stage = 0, shard = 0;
  bool second_run = false;                  ///< of forward, or backward, which reads what that made
  const InnerExchange* exchange = nullptr;  ///< of inner reduces and rotations; `stage` is its step
  std::size_t wiring = 0, index = 0;        ///< of transfers: task number of the wiring's plan
};

/// Roles of all tasks of an expanded strategy, which must outlive them.
class RoleTable {
 public:
  explicit RoleTable(const ExpandedStrategy& expanded);
  [[nodiscard]] const TaskRole& operator[](TaskId task) const { return roles_[task.index()]; }

 private:
  void add_pass(OperatorId op, std::int32_t microbatch, const BoundOperator& bound, TaskId first,
                TaskKind kind);
  void add_wiring(const Wiring& wiring, std::size_t number);
  std::vector<TaskRole> roles_;
};

}  // namespace pipesim
