#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "costmodel/collectives.h"
#include "executor/communication/communicator.h"
#include "executor/program/arena_plan.h"
#include "models/box.h"
#include "sim/base/data_type.h"
#include "sim/base/ids.h"
#include "taskgraph/expansion/task_graph.h"
#include "taskgraph/memory/peak_memory.h"

namespace pipesim {

using BufferId = Id<struct BufferTag>;

/// Memory of one device for one piece of a tensor (or several pieces, one after the other).
struct Buffer {
  enum class Life : std::uint8_t {
    Uses,      ///< allocated when first used in a step, freed after the last use
    Forever,   ///< weights, optimizer state, running statistics
    Loaded,    ///< filled before every step: data of the model, the gradient of its results
    Workspace  ///< like Uses, but beside the account: conversions for kernels
  };
  DeviceId device;
  std::int64_t elements = 0;
  DataType type = DataType::Float32;
  Life life = Life::Uses;
  MemoryCategory category = MemoryCategory::Activations;
  TensorId tensor;            ///< what it holds, for messages
  std::int32_t num_uses = 0;  ///< instructions of one step that use it
  [[nodiscard]] Bytes bytes() const { return Bytes(elements * bytes_per_element(type)); }
};

/// A piece of a tensor in a buffer: row-major over `box`, from element `offset` on.
struct View {
  BufferId buffer;
  std::int64_t offset = 0;
  Box box;
  [[nodiscard]] bool present() const { return buffer.valid(); }
};

/// Copies `region` of one piece into another, or adds it; converts between types.
struct Move {
  View from, to;
  Box region;
  bool add = false;
};

/// Zeros, then moves, in order.
struct MoveList {
  std::vector<View> zeroed;
  std::vector<Move> moves;
  [[nodiscard]] bool empty() const { return zeroed.empty() && moves.empty(); }
  void append(const MoveList& more) {
    zeroed.insert(zeroed.end(), more.zeroed.begin(), more.zeroed.end());
    moves.insert(moves.end(), more.moves.begin(), more.moves.end());
  }
};

/// One stage of a pass of one shard. Views are indexed like Operator::uses.
struct ComputeWork {
  OperatorId op;
  Pass pass = Pass::Forward;
  std::int32_t microbatch = 0;
  std::int32_t shard = 0;
  std::vector<Range> ranges;  ///< of every factor: the shard's part, or its block's
  /// Parts of the pass between its inner steps. The stage that begins or ends a ring has none.
  std::size_t first_segment = 0, end_segment = 1;
  std::int32_t block = -1;  ///< of keys, where they pass round a ring
  std::vector<View> values, gradients;
  std::vector<View> statistics;  ///< float64, by inner step of the pass
  View saved;                    ///< bytes
};

/// The optimizer's step on one piece of a weight's home.
struct WeightUpdate {
  TensorId weight;
  View value, gradient;
  View master;         ///< the main weight of a 16-bit one, Optimizer::main; else not present
  View first, second;  ///< the optimizer's state, as far as it has any
  /// `master` has the 16 bits of a float32 that `value` lacks, under the name of another type of 16 bits.
  bool lacks_bits = false;
};
struct UpdateWork {
  std::vector<WeightUpdate> weights;
  std::int32_t change = 0;    ///< which of the step's changes of these weights, from 0
  std::int32_t changes = 1;   ///< of these weights in a step
  std::int32_t averaged = 1;  ///< so many microbatches' gradients are added up, each divided by its own rows
};

/// A device's part in a collective or message.
struct CommunicationWork {
  Collective kind = Collective::Send;
  ReduceOperation reduce = ReduceOperation::Sum;
  std::vector<DeviceId> group;  ///< as CommunicationTask::group
  std::int32_t rank = 0;        ///< of this device in it
  DataType type = DataType::Float32;
  View give, get;          ///< several blocks one after the other where the collective has them
  std::int64_t block = 0;  ///< elements of a block; of all-reduce, broadcast, reduce and send: of everything
  std::int32_t blocks_given = 1, blocks_got = 1;
  Range part;  ///< elements of every block that this task moves
};

struct BarrierWork {};  ///< nothing to do: the device is done with a microbatch
using Work = std::variant<ComputeWork, UpdateWork, CommunicationWork, BarrierWork>;

/// The work of a device for a task of the graph.
struct Instruction {
  TaskId task;
  std::vector<TaskId> waits;  ///< instructions of this device that must be done
  MoveList before;            ///< puts inputs together
  Work work;
  MoveList after;                 ///< hands out results
  std::vector<BufferId> buffers;  ///< all that it uses
};

/// The work of one device in a step: lists that run in parallel, each in order. A device that does not
/// overlap (DeviceKind::overlap) does its communication in `compute` too.
struct DeviceProgram {
  DeviceId device;
  std::vector<Instruction> compute;
  std::vector<std::vector<Instruction>> streams;  ///< communication
};

/// A buffer that is filled from outside.
struct Loaded {
  enum class Content : std::uint8_t { Data, Weight, State, OutputGradient, Zero };
  Content content = Content::Data;
  TensorId tensor;
  View view;
  View master;                  ///< of a 16-bit weight
  std::int32_t microbatch = 0;  ///< of data and gradients of results: whose samples these are
};

/// A plan turned into lists of instructions: the executor's input, the same for every backend.
struct Program {
  std::vector<Buffer> buffers;
  std::vector<DeviceProgram> devices;  ///< those that do anything, ascending
  std::vector<Loaded> loaded;
  std::vector<TaskId> order;        ///< of all tasks, as dispatched
  std::optional<ArenaPlan> arenas;  ///< none: buffers get memory of their own when they are used
  /// Where gradients, weights and results are after a step, to compare them with another program of the
  /// model.
  struct Result {
    enum class Content : std::uint8_t { Gradient, Weight, Output };
    Content content = Content::Output;
    TensorId tensor;
    View view;   ///< of outputs: an addend of a microbatch, of which no other device's results hold a copy
    Box region;  ///< of the view: what counts
  };
  std::vector<Result> results;
};

}  // namespace pipesim
