#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "taskgraph/binding/plan_contents.h"
#include "taskgraph/expansion/made_tasks.h"

namespace pipesim {

class StrategyExpander;
class ExpandedStrategy;

/// Adds the second gather of what forward gathered to plans that gather inputs again.
///
/// It is worth while where every device holds a part of the tensor, and gets more than that, from devices of
/// the same stage. The second gather begins when backward of the operator behind its readers is done, so that
/// it may run beside the backward of these: gradients of inputs often need no input.
class InputGathers {
 public:
  explicit InputGathers(StrategyExpander& expander);
  /// Adds the second gathers of a microbatch whose transfers of activations were added already; none where
  /// the plan keeps inputs.
  void add(const BoundStrategy& strategy, std::int32_t microbatch);

 private:
  [[nodiscard]] bool gathers(const Wiring& wiring);
  [[nodiscard]] bool gathers(LayoutId source, LayoutId target);
  [[nodiscard]] std::vector<UseRef> readers_of(const Wiring& wiring) const;
  [[nodiscard]] TaskId backward_behind(OperatorId op, DeviceId device) const;
  [[nodiscard]] std::vector<std::pair<DeviceId, TaskId>> awaited(const Wiring& wiring,
                                                                 const std::vector<UseRef>& readers) const;
  void connect_readers(const Wiring& wiring);

  StrategyExpander& expander_;
  const PlanContents& contents_;
  const ExpandedStrategy& made_;
  /// By operator: the first whose backward needs what its second run reads; empty where inputs are kept.
  std::vector<OperatorId> read_until_;
  std::map<std::pair<LayoutId, LayoutId>, bool> gathers_;
  // These two belong to the microbatch that is being added.
  const BoundStrategy* now_ = nullptr;
  std::int32_t microbatch_ = 0;
};

}  // namespace pipesim
