#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "executor/communication/communicator.h"

namespace pipesim {

/// One test that every implementation of Communicator must pass. `run` is called by all members at the same
/// time, each with its own communicator of all of them; it throws std::runtime_error with what was expected.
struct ConformanceCase {
  const char* name;
  void (*run)(Communicator& world, std::uint64_t seed);
};

std::span<const ConformanceCase> conformance_cases();

enum class CallKind : std::uint8_t {
  AllReduce,
  Reduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Broadcast,
  SendAndReceive  ///< from the root to the next member
};

struct Call {
  CallKind kind;
  DataType type = DataType::Float32;
  ReduceOperation operation = ReduceOperation::Sum;
  std::int64_t elements = 0;
  int root = 0;
  std::uint64_t seed = 0;  ///< of the inputs
};

using ByteVector = std::vector<std::byte>;

/// Random values of a type: floating point numbers of mixed sizes, any integers.
ByteVector random_values(DataType type, std::int64_t elements, std::uint64_t seed);
/// Adds or compares element by element, in order, in float for 16-bit types.
ByteVector naive_reduction(const Call& call, std::span<const ByteVector> addends);
/// Makes the call with random inputs and compares every bit of the result with a naive one.
void check_call(Communicator& group, const Call& call, std::int64_t tag);

/// Runs body(0) to body(count - 1) in threads of their own. The first error aborts the group and is thrown
/// again.
void in_threads(int count, const std::function<void(int)>& body,
                const std::function<void(const std::string&)>& abort);

}  // namespace pipesim
