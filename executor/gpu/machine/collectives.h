#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "executor/gpu/machine/stream.h"
#include "executor/program/program.h"

namespace pipesim::gpu {

/// A collective or message between devices. Sizes are as in Communicator: `elements` of every block.
struct CollectiveCall {
  Collective kind = Collective::Send;
  ReduceOperation reduce = ReduceOperation::Sum;
  DataType type = DataType::Float32;
  std::span<const DeviceId> group;  ///< by rank; a message goes from the first to the second
  std::int64_t elements = 0;
  int root = 0;  ///< of a broadcast or a reduction
};

/// A device of this process in a call. `give` and `get` are addresses of its own memory, null where the kind
/// has none. They are the same in an all-reduce, and at the root of a broadcast or a reduction.
struct CollectiveMember {
  int rank = 0;
  Stream* stream = nullptr;
  std::byte *give = nullptr, *get = nullptr;
};

/// Collectives as work of streams. A call is made once for all members of this process and returns when all
/// work is noted. A member's part begins after the work that its stream was given before. Results are those
/// of Communicator, except that sums may be added in another order, the same for all members.
class Collectives {
 public:
  virtual ~Collectives() = default;
  /// Announces the groups in which members of this process take part, before run() uses them. All processes
  /// call it equally often: once for every program that is run (a plan, and the reference that it is checked
  /// against). Groups may be repeated. Returns when all processes have called it.
  virtual void prepare(std::span<const std::vector<DeviceId>> groups) = 0;
  virtual void run(const CollectiveCall& call, std::span<const CollectiveMember> members) = 0;
  /// Makes pending collectives end with an error, here and in other processes.
  virtual void abort(const std::string& reason) noexcept = 0;
  /// DeviceError when a peer has failed or disappeared. Results that streams computed since then are invalid.
  virtual void require_peers() const = 0;
};

/// The processes that take part, each with devices of its own.
struct Processes {
  int rank = 0, ranks = 1;
  std::function<int(DeviceId)> rank_of = [](DeviceId) { return 0; };
  /// Called by all processes. Returns the texts of all, by rank.
  std::function<std::vector<std::string>(const std::string&)> gather = [](const std::string& mine) {
    return std::vector<std::string>{mine};
  };
};

}  // namespace pipesim::gpu
