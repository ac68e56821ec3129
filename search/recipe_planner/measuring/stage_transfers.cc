#include "search/recipe_planner/measuring/stage_transfers.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "search/recipe_planner/measuring/arrivals.h"
#include "search/recipe_planner/measuring/mesh_tables.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// When all that the plan brings is there, on the device that has it first, of what is there at 0.
Nanoseconds first_device_to_have_all(const CommunicationPlan& plan, const BoundOperator& reader) {
  const Moments at_once(plan.expansion.tasks.size(), 0);
  return std::max<Nanoseconds>(0, least(arrivals_of(plan, at_once, reader, true)));
}

// The activation between two parts.
class TransferOfTensor {
 public:
  TransferOfTensor(TensorId tensor, MeshTables& tables)
      : tensor_(tensor), tables_(tables), maker_(tables.backward().producing_use(tensor)) {}

  StageTransfer measure(std::int64_t from, std::int64_t to) {
    tables_.go_to(from);
    tables_.bind({maker_.op});
    const BoundOperator& maker = tables_[maker_.op];
    const LayoutIds made{data_layout(maker_, tables_.strategy())};
    const LayoutId gradient = gradient_layout(maker_, tables_.strategy());
    tables_.go_to(to);
    std::vector<OperatorId> readers;
    for (const UseRef use : tables_.graph().consumers(tensor_)) readers.push_back(use.op);
    tables_.bind(readers);
    StageTransfer least{std::numeric_limits<Nanoseconds>::max(), 0};
    for (const UseRef use : tables_.graph().consumers(tensor_)) {
      const CommunicationPlan& plan =
          tables_.plan(tensor_, Moved::Data, made, data_layout(use, tables_.strategy()));
      least.forward = std::min(least.forward, first_device_to_have_all(plan, tables_[use.op]));
    }
    if (!tables_.backward().has_backward(tensor_)) return least;
    LayoutIds terms;
    for (const UseRef use : tables_.backward().gradient_makers(tensor_))
      add_distinct(terms, gradient_layout(use, tables_.strategy()));
    least.backward = first_device_to_have_all(tables_.plan(tensor_, Moved::Gradient, terms, gradient), maker);
    return least;
  }

 private:
  TensorId tensor_;
  MeshTables& tables_;
  UseRef maker_;
};

}  // namespace

void lower(StageTransfer& least, const StageTransfer& other) {
  least = {std::min(least.forward, other.forward), std::min(least.backward, other.backward)};
}

StageTransfer measure_stage_transfer(const ModelParts& parts, std::int64_t group, std::int64_t other,
                                     MeshTables& tables) {
  constexpr Nanoseconds kMost = std::numeric_limits<Nanoseconds>::max();
  StageTransfer least{kMost, kMost};
  const auto measure = [&](const ModelPart& before) {
    stop_if_late();
    StageTransfer of_cut;
    if (before.exit) {
      TransferOfTensor tensor(*before.exit, tables);
      of_cut = tensor.measure(group, other);
      lower(of_cut, tensor.measure(other, group));
    }
    lower(least, of_cut);
  };
  if (!parts.front.operators.empty()) measure(parts.front);
  std::set<std::pair<std::size_t, std::size_t>> seen;  // classes of the layers before and behind
  for (std::size_t l = 0; l + 1 < parts.layers.size(); ++l) {
    if (seen.emplace(parts.class_of[l], parts.class_of[l + 1]).second) measure(parts.layers[l]);
  }
  if (!parts.behind.operators.empty() && !parts.layers.empty()) measure(parts.layers.back());
  return least.forward == kMost ? StageTransfer() : least;
}

}  // namespace pipesim
