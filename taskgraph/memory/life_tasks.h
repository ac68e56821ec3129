#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/base/small_vector.h"
#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/expanded_strategy.h"

namespace pipesim {

/// Tasks of the first microbatch that goes the same way.
using TaskList = SmallVector<TaskId, 4>;

inline void append(TaskList& tasks, const TaskList& more) {
  tasks.insert(tasks.end(), more.begin(), more.end());
}

/// From the first start of some tasks to the last end of others, or nothing where these end before.
struct LifeSpan {
  TaskList starts, ends;
  void cover(const TaskList& begin, const TaskList& end) { append(starts, begin), append(ends, end); }
};

/// What products keep on a device of an input that they read, for backward.
struct InputCopy {
  DeviceId device;
  Bytes bytes;
  LifeSpan life;
};

/// Calls visit(the consumers that make it) for each term of a wiring.
template <class Visit>
void visit_terms(const Wiring& w, Visit visit) {
  for (std::size_t s = 0; s < w.sources.size(); ++s) {
    const auto first = std::find(w.source_terms.begin(), w.source_terms.end(), w.source_terms[s]);
    if (first != w.source_terms.begin() + static_cast<std::ptrdiff_t>(s)) continue;
    std::vector<UseRef> consumers;
    for (std::size_t other = s; other < w.sources.size(); ++other) {
      if (w.source_terms[other] == w.source_terms[s]) consumers.push_back(w.sources[other]);
    }
    visit(consumers);
  }
}

/// The tasks of a plan that make, read, send and receive tensors, in the microbatches that go one way:
/// between them buffers live.
class LifeTasks {
 public:
  explicit LifeTasks(const ExpandedStrategy& expanded)
      : expanded_(expanded), contents_(expanded.contents()), strategy_(&expanded.strategy()) {}

 protected:
  [[nodiscard]] const OperatorTasks& tasks_of(OperatorId op) const { return expanded_.tasks_of(op, way_); }

  [[nodiscard]] TaskId task(TaskId first, const PassWork& work, std::size_t stage, std::size_t shards,
                            std::int32_t shard) const {
    return TaskId(first.index() + std::min(stage, work.stages() - 1) * shards +
                  static_cast<std::size_t>(shard));
  }

  /// The last tasks of a shard's backward; none without backward.
  [[nodiscard]] TaskList backward_end(OperatorId op, std::int32_t shard) const;
  /// Whether the pass of inputs' gradients leaves a copy of the results' gradient, which is all that the pass
  /// of weights' gradients reads of it (ShardMemory::gradient_copy).
  [[nodiscard]] bool copies_gradient(OperatorId op) const;
  /// The last tasks of a shard that read the gradient of what the operator made.
  [[nodiscard]] TaskList gradient_read_end(OperatorId op, std::int32_t shard) const;
  /// The last task of the first run, or of the second.
  [[nodiscard]] TaskList forward_end(OperatorId op, std::int32_t shard, bool again = false) const;
  /// A consumer reads its input in forward, when forward runs again, and in backward if it saves it and keeps
  /// no copy of it. What is brought once more is not read in the first run; and what was brought first is
  /// read in the first run only, if it is brought once more.
  [[nodiscard]] TaskList read_until(UseRef use, std::int32_t shard, const Wiring& wiring) const;
  [[nodiscard]] bool read_once(UseRef use, const Wiring& wiring) const;
  /// Whether a second run reads the copy that the first one left (TensorUse::runs_again_from_saved).
  [[nodiscard]] bool runs_again_from_copy(UseRef use) const;
  /// Whether a run of forward that has what the wiring brings leaves a copy of it for backward.
  [[nodiscard]] bool copied_whole(UseRef use, const Wiring& wiring) const;
  /// Whether backward reads an input that is gathered again from copies of what each device has of it. They
  /// travel, and arrive, in the tensor's type, as all that is sent.
  [[nodiscard]] bool copied_in_pieces(UseRef use, const Wiring& wiring) const;
  /// The copies that products leave for backward of what the wiring brings, from the start of the first that
  /// reads it on a device. Its other readers there share them.
  [[nodiscard]] std::vector<InputCopy> input_copies(const Wiring& w) const;
  /// Returns the ends of the passes that read first what the wiring brings.
  [[nodiscard]] TaskList first_read_until(const Wiring& w, DeviceId d) const;
  [[nodiscard]] bool reads_on(const Wiring& w, DeviceId d) const;
  /// Returns until when the consumers for which counts(use) holds read what the wiring brings to the device.
  template <class Counts>
  [[nodiscard]] TaskList consumers_until(const Wiring& w, DeviceId d, Counts counts) const {
    TaskList until;
    for (const UseRef c : w.destinations) {
      const std::int32_t k = (*strategy_)[c.op.index()]->shard_of_device[d.index()];
      if (k >= 0 && counts(c)) append(until, read_until(c, k, w));
    }
    return until;
  }

  /// Returns the tasks that bring data to the device; one of them comes first.
  [[nodiscard]] TaskList first_arrival(const Wiring& w, DeviceId device) const;
  /// Returns the tasks that read in these passes; one of them comes first.
  [[nodiscard]] TaskList first_read(OperatorId op, std::int32_t shard, ReadIn passes) const;
  [[nodiscard]] LifeSpan gradient_life(const Wiring& w, const std::vector<UseRef>& consumers,
                                       DeviceId device) const;

  /// Bytes of what the device has of the tensor, in the type in which the reader keeps it.
  [[nodiscard]] Bytes piece_of(UseRef source, UseRef reader, DeviceId d) const;

  const ExpandedStrategy& expanded_;
  const PlanContents& contents_;
  const BoundStrategy* strategy_;  ///< of the way
  std::int32_t way_ = 0;
};

}  // namespace pipesim
