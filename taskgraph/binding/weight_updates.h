#pragma once

#include <tbb/spin_mutex.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"
#include "sim/base/small_vector.h"
#include "taskgraph/moving/id_table.h"
#include "taskgraph/moving/layout.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// The updates of the weights that an operator owns: one on each device that holds state of such a weight.
struct OwnedUpdates {
  std::vector<DeviceId> devices;
  std::vector<Nanoseconds> durations;
  std::vector<Bytes> widened;  ///< of their gradients during the step, widened_gradients()
  /// optimizer_intermediates() of all of these weights, or of the one with most.
  std::vector<Bytes> intermediates;
  std::vector<std::int32_t> update_of_device;  ///< −1 where there is none
  /// What devices hold of these weights all the time. Without state sharding these are the devices above.
  std::vector<DeviceId> holders;
  std::vector<WeightMemory> memory;    ///< per holder
  std::vector<std::int64_t> elements;  ///< per holder: of the whole weights that it uses
};

/// Where an operator's weights lie: whole, as their uses need them, and divided. Without state sharding
/// these are the same, and `state` is empty.
struct WeightHomes {
  LayoutIds whole, state;
};

/// Updates by the homes of the weights, each kept once. Any number of threads may use it. Call clear() only
/// while no thread uses it.
class WeightUpdates {
 public:
  WeightUpdates(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                const LayoutTable& layouts);

  /// Valid until clear(). The homes are those of these weights.
  const OwnedUpdates& of(const WeightHomes& homes, std::span<const TensorId> weights);
  /// Takes these costs from now on; with `again` it prices all kept updates anew, in place. No other thread
  /// may use this meanwhile.
  void reprice(const CostModel& costs, bool again);
  void clear();

 private:
  using ShapeNumbers = SmallVector<std::int32_t, 8>;  // by weight, indices into shapes_
  struct Kept {
    WeightHomes homes;
    ShapeNumbers shapes;
    OwnedUpdates work;
  };
  [[nodiscard]] OwnedUpdates plan(const WeightHomes& homes, const ShapeNumbers& shapes) const;
  [[nodiscard]] std::vector<Seconds> host_times(const WeightHomes& homes) const;
  [[nodiscard]] std::vector<std::int64_t> elements_by_device(LayoutId layout) const;

  const CostModel* costs_;
  const PlanOptions& options_;
  const LayoutTable& layouts_;
  std::vector<WeightShape> shapes_;            // each once, as far as the optimizer tells them apart
  std::vector<std::int32_t> shape_of_weight_;  // by tensor
  tbb::spin_mutex mutex_;                      // held to change what follows
  IdTable<const OwnedUpdates*> by_homes_;
  std::deque<Kept> kept_;  // stable addresses
};

}  // namespace pipesim
