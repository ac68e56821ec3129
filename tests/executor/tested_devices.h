#pragma once

#include <memory>

#include "executor/backend/backend.h"
#include "models/operator_graph.h"

namespace pipesim {

/// Devices on which this test program runs plans.
class TestedDevices {
 public:
  virtual ~TestedDevices() = default;
  [[nodiscard]] virtual Backend& backend() = 0;
  /// Whether they need programs with arenas.
  [[nodiscard]] virtual bool arenas() const = 0;
  /// Whether they have all kernels, also for keys that pass round a ring, losses in chunks, and main
  /// weights in halves.
  [[nodiscard]] virtual bool has_all_kernels() const = 0;
  /// How far results of an operator whose operands have 16 bits may be off.
  [[nodiscard]] virtual double narrow_error() const = 0;
};

std::unique_ptr<TestedDevices> make_tested_devices(const OperatorGraph& graph, std::size_t num_devices,
                                                   const Optimizer& optimizer = Optimizer::Momentum);

}  // namespace pipesim
