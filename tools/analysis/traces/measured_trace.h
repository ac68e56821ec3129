#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"

namespace pipesim {

/// What a profiler recorded of one process (PyTorch's) or of several (Nsight Systems). Times are nanoseconds
/// of one clock, from any origin. Texts that repeat are kept once: `name` and the like are positions in
/// MeasuredTrace::names.

/// An argument of an operator.
struct TracedInput {
  std::string type;  ///< "c10::BFloat16", "float"; "TensorList", whose elements' type is not recorded;
                     ///< "Scalar" and the like, or "": no tensor
  std::vector<std::vector<std::int64_t>> shapes;  ///< of the tensor, or of each one in a list
  bool operator==(const TracedInput&) const = default;
};

/// What an operator was called with.
struct TracedCall {
  std::vector<TracedInput> inputs;
  std::vector<std::string> values;  ///< of arguments that are no tensors, by position; of attention only
  bool operator==(const TracedCall&) const = default;
};

/// A call of an operator by a thread of the host.
struct TracedOperator {
  std::int32_t name = -1;
  std::int32_t call = -1;    ///< position in MeasuredTrace::calls; −1: shapes were not recorded
  std::int32_t thread = -1;  ///< numbered from 0
  std::int32_t parent = -1;  ///< the operator that calls it: position in MeasuredTrace::operators; −1: none
  Nanoseconds start = 0, end = 0;
};

/// A call of the host that gives a device work: a launch of a kernel, a copy, a graph.
struct TracedLaunch {
  std::int32_t thread = -1;
  std::int32_t op = -1;  ///< the innermost operator that encloses it; −1: none
  Nanoseconds start = 0, end = 0;
  std::int64_t correlation = 0;
};

/// What a collective's kernel says of itself.
struct TracedCollective {
  std::int32_t name = -1;   ///< "allreduce", "_allgather_base", …
  std::int32_t group = -1;  ///< of the process group
  std::int32_t ranks = -1;  ///< as recorded: "[0, 1]"
  std::int64_t group_size = 0;
  std::int64_t elements_in = 0, elements_out = 0;
  std::int32_t type = -1;  ///< "Float", "BFloat16", …
};

enum class DeviceWork : std::uint8_t { Kernel, Copy, Fill };

/// Something that ran on a device.
struct DeviceActivity {
  DeviceWork work = DeviceWork::Kernel;
  std::int32_t name = -1;
  std::int32_t device = 0;
  std::int64_t stream = 0;
  Nanoseconds start = 0, duration = 0;
  std::int64_t correlation = 0;
  std::int32_t launch = -1;      ///< position in MeasuredTrace::launches; −1: not recorded
  std::int32_t collective = -1;  ///< position in MeasuredTrace::collectives; −1: none that describes itself
  [[nodiscard]] Nanoseconds end() const { return start + duration; }
};

/// A range that the program named: "ProfilerStep#5".
struct TracedRange {
  std::int32_t name = -1;
  Nanoseconds start = 0, end = 0;
};

struct MeasuredTrace {
  std::string file;
  std::vector<std::string> device_names;  ///< "NVIDIA H100 80GB HBM3", by number of the device
  std::int64_t rank = -1;                 ///< of a distributed run; −1: not recorded
  std::vector<std::string> names;
  std::vector<TracedCall> calls;
  std::vector<TracedOperator> operators;
  std::vector<TracedLaunch> launches;
  std::vector<DeviceActivity> activities;  ///< by start
  std::vector<TracedCollective> collectives;
  std::vector<TracedRange> ranges;
  std::vector<std::int64_t> loss_sizes;  ///< elements of what losses read (logits), ascending

  [[nodiscard]] const std::string& name(std::int32_t number) const {
    return names.at(static_cast<std::size_t>(number));
  }
  /// The innermost operator that launched it; null: none.
  [[nodiscard]] const TracedOperator* operator_of(const DeviceActivity& activity) const;
};

/// Returns the number of elements; 0 where a size is negative or the product is beyond all memories.
std::int64_t elements_of(const std::vector<std::int64_t>& shape);

/// Texts, each with one number.
class NameTable {
 public:
  explicit NameTable(std::vector<std::string>& names) : names_(names) {}
  std::int32_t number_of(std::string_view text);

 private:
  std::vector<std::string>& names_;
  std::map<std::string, std::int32_t, std::less<>> numbers_;
};

/// Sorts activities by start, and finds for each its launch (by correlation), for each launch its operator
/// (the innermost of its thread that encloses it in time), and for each operator its parent. Finds the sizes
/// of what losses read.
void connect(MeasuredTrace& trace);

}  // namespace pipesim
