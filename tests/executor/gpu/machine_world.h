#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/communication/communicator.h"
#include "executor/gpu/machine/collectives.h"
#include "executor/gpu/machine/machine.h"

namespace pipesim::gpu {

/// The devices of a machine as members of a world, each with threads of its own: the last member that comes
/// to a call makes it for all, over memory of the machine, so that collectives of streams can be tested like
/// communicators.
class MachineWorld {
 public:
  MachineWorld(Machine& machine, Collectives& collectives, int devices);
  [[nodiscard]] std::unique_ptr<Communicator> member(int device);

  /// What a member brings to a call.
  struct Part {
    int rank = 0;
    std::vector<std::byte> give;  ///< empty: nothing, or what the result begins with
    std::byte* result = nullptr;
    std::size_t result_size = 0;
    bool in_place = false;
  };
  struct Shape {
    Collective kind = Collective::Send;
    ReduceOperation reduce = ReduceOperation::Sum;
    DataType type = DataType::Float32;
    std::int64_t elements = 0;
    int root = 0;
    bool operator==(const Shape&) const = default;
  };
  /// Returns when all members of the group have come and the call is made. Calls are matched by `match` and
  /// tag: a message belongs to the group in which it is sent.
  void meet(const std::vector<int>& match, const std::vector<int>& group, std::int64_t tag,
            const Shape& shape, Part part);
  void abort(const std::string& reason);

 private:
  struct Meeting {
    Shape shape;
    std::vector<Part> parts;
    std::size_t left = 0;
    bool done = false;
    std::string error;
  };
  void make(const std::vector<int>& group, Meeting& meeting);

  Machine& machine_;
  Collectives& collectives_;
  int devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::vector<int>, std::int64_t>, Meeting> meetings_;
  std::string aborted_;
};

}  // namespace pipesim::gpu
