#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/collectives.h"
#include "costmodel/training/optimizer.h"
#include "sim/base/data_type.h"
#include "sim/base/units.h"

namespace pipesim {

/// What a measured peak counts: tensors; or what PyTorch's allocator holds of the device for them
/// (max_memory_reserved); or all that the process takes, as nvidia-smi shows it. See MemoryOverhead.
enum class MemoryFigure : std::uint8_t { Allocated, Reserved, Process };

/// A measured run as pipesim expresses it.
struct ExpressedRun {
  std::string model;     ///< text of open_model()
  std::string topology;  ///< text of open_topology()
  std::string recipe;
  std::int64_t batch = 0;  ///< samples of an iteration
  DataType gradient_type = DataType::Float32;
  Optimizer optimizer = Optimizer::Adam;
  std::string runtime = "megatron";  ///< text of parse_runtime()
  Bytes workspace = {};              ///< what libraries allocate beside the model, for the whole run
  /// A device begins the next iteration as soon as it has ended this one, without waiting for the others:
  /// what is checked over all stages is checked behind the update (arXiv:2401.10241, section 4). The time is
  /// then the longest that a device takes from its first task to its last.
  bool post_validation = false;
  bool fullest_peak = false;  ///< the measured peak is that of the fullest device, not of the last one
  MemoryFigure memory_figure = MemoryFigure::Allocated;  ///< what the measured peak counts
  bool operator==(const ExpressedRun&) const = default;
};

/// A measured collective, in the terms of nccl-tests (tools/analysis/accuracy/collective_report.h).
struct ExpressedCollective {
  std::string topology;  ///< text of open_topology()
  Collective kind = Collective::AllReduce;
  std::int64_t devices = 0;  ///< the first ones of the topology
  Bytes size;
  bool in_switch = true;  ///< switches add where they can; they can't add 8-bit integers
  bool operator==(const ExpressedCollective&) const = default;
};

/// What ran side by side on each GPU of a node, each with the time that it takes alone; 0: not there.
struct ExpressedMixture {
  Seconds product, collective, to_device,
      to_host;  ///< a matrix product, a collective, copies from and to the host
  bool operator==(const ExpressedMixture&) const = default;
};

/// A row of a measured table.
struct MeasuredRun {
  std::string name;                 ///< what the run is called in its table
  std::vector<std::string> groups;  ///< that errors are reported for
  std::optional<ExpressedRun> run;  ///< or a collective
  std::optional<ExpressedCollective> collective;
  std::optional<ExpressedMixture> mixture;  ///< or this
  std::string reason;                       ///< why there is no run
  /// Names what runs have in common that could replace each other: model, devices, batch. "": the run is
  /// compared with no other.
  std::string workload;
  Seconds measured_time;  ///< of an iteration, or of a collective; 0: not measured
  /// At the peak, and at the end of an iteration: weights, gradients and optimizer state are left. 0: not
  /// measured.
  Bytes measured_peak, measured_state;
  /// The name of the run over which the speedup of this one is judged. "": of none.
  std::string compared_with;
  std::optional<bool> fitted;  ///< whether it ran, or was short of memory; nothing where that is not known
  /// Figures that the error may go with, as {"tp", 8}.
  std::vector<std::pair<std::string, double>> traits;
  bool operator==(const MeasuredRun&) const = default;
};

}  // namespace pipesim
