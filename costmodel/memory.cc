#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {

namespace {

constexpr std::array<Optimizer, 3> optimizers{Optimizer::Sgd, Optimizer::Momentum, Optimizer::Adam};

/// Values kept per weight besides itself and its gradient.
std::int64_t moments(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::Sgd:
      return 0;
    case Optimizer::Momentum:
      return 1;
    case Optimizer::Adam:
      return 2;
  }
  throw InternalError("optimizer of unknown kind");
}

bool needs_master_copy(DataType type) { return bytes_per_element(type) < 4; }

/// Bytes of state per weight: moments and master copy are float32, or the weight's own type if that is wider.
std::int64_t state_bytes(DataType type, Optimizer optimizer) {
  std::int64_t width = std::max<std::int64_t>(4, bytes_per_element(type));
  return width * (moments(optimizer) + (needs_master_copy(type) ? 1 : 0));
}

}  // namespace

std::string_view name_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::Sgd:
      return "sgd";
    case Optimizer::Momentum:
      return "momentum";
    case Optimizer::Adam:
      return "adam";
  }
  throw InternalError("optimizer of unknown kind");
}

Optimizer parse_optimizer(std::string_view name) {
  std::vector<std::string> names;
  for (Optimizer optimizer : optimizers) {
    if (name_of(optimizer) == name) return optimizer;
    names.emplace_back(name_of(optimizer));
  }
  throw InputError("unknown optimizer \"" + std::string(name) + "\": allowed are " + list_names(names) +
                   did_you_mean(name, names));
}

WeightMemory CostModel::weight_memory(std::int64_t elements, DataType type, DataType gradient_type,
                                      Optimizer optimizer) {
  return {Bytes(elements * bytes_per_element(type)), Bytes(elements * bytes_per_element(gradient_type)),
          Bytes(elements * state_bytes(type, optimizer))};
}

// The gradient is read, states are read and written, the weight is written, and read where it is its own
// master.
Seconds analytic_update_time(std::int64_t elements, DataType type, Optimizer optimizer,
                             const DeviceKind& kind) {
  if (elements < 0) throw InternalError("update of a negative number of weights");
  if (elements == 0) return Seconds(0);
  std::int64_t own = bytes_per_element(type) * (needs_master_copy(type) ? 2 : 3);
  Bytes moved(elements * (own + 2 * state_bytes(type, optimizer)));
  return kind.launch_overhead + moved / BytesPerSecond(kind.memory_bandwidth.value * kind.memory_efficiency);
}

}  // namespace pipesim
