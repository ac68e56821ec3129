#pragma once

#include <tbb/spin_mutex.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"
#include "taskgraph/moving/id_table.h"
#include "taskgraph/moving/layout.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {

/// The updates of the weights that an operator owns: one on each device that holds state of such a weight.
struct OwnedUpdates {
  std::vector<DeviceId> devices;
  std::vector<Nanoseconds> durations;
  std::vector<std::int32_t> update_of_device;  ///< −1 where there is none
  /// What devices hold of these weights all the time. Without state sharding these are the devices above.
  std::vector<DeviceId> holders;
  std::vector<WeightMemory> memory;  ///< per holder
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
  WeightUpdates(const CostModel& costs, const PlanOptions& options, const LayoutTable& layouts)
      : costs_(&costs), options_(options), layouts_(layouts) {}

  /// Valid until clear(). `type`: of the weights.
  const OwnedUpdates& of(const WeightHomes& homes, DataType type);
  /// Takes these costs from now on; with `again` it prices all kept updates anew, in place. No other thread
  /// may use this meanwhile.
  void reprice(const CostModel& costs, bool again);
  void clear();

 private:
  struct Kept {
    WeightHomes homes;
    DataType type;
    OwnedUpdates work;
  };
  [[nodiscard]] OwnedUpdates plan(const WeightHomes& homes, DataType type) const;
  [[nodiscard]] std::vector<Seconds> host_times(const WeightHomes& homes) const;
  [[nodiscard]] std::vector<std::int64_t> elements_by_device(std::span<const LayoutId> layouts) const;

  const CostModel* costs_;
  const PlanOptions& options_;
  const LayoutTable& layouts_;
  tbb::spin_mutex mutex_;  // held to change what follows
  IdTable<const OwnedUpdates*> by_homes_;
  std::deque<Kept> kept_;  // stable addresses
};

}  // namespace pipesim
