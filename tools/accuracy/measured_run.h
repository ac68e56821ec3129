#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/data_type.h"
#include "sim/base/units.h"

namespace pipesim {

/// A measured run as pipesim expresses it.
struct ExpressedRun {
  std::string model;        ///< text of open_model()
  std::string device_kind;  ///< of the preset topologies, "H100-SXM5"
  std::int64_t devices = 0;
  std::string recipe;
  std::int64_t batch = 0;  ///< samples of an iteration
  DataType gradient_type = DataType::Float32;
  Bytes workspace;  ///< what libraries allocate beside the model, for the whole run
  /// Whether the state as measured holds gradients once more in float32: made for the update, and freed
  /// before the next iteration's forward pass.
  bool update_gradients = false;
};

/// A row of a measured table.
struct MeasuredRun {
  std::string name;                 ///< what the run is called in its table
  std::vector<std::string> groups;  ///< that errors are reported for
  std::optional<ExpressedRun> run;
  std::string reason;  ///< why there is no run
  /// At the peak, and at the end of an iteration: weights, gradients and optimizer state are left. 0: not
  /// measured.
  Bytes measured_peak, measured_state;
};

}  // namespace pipesim
