#pragma once

#include <cstdint>
#include <vector>

#include "search/recipe_planner/measuring/mesh_tables.h"
#include "search/recipe_planner/measuring/model_parts.h"

namespace pipesim {

/// A part of the model on one group of a mesh: what its costs are measured from.
class PartOnMesh {
 public:
  /// What is bound, on all devices of the group: the part's operators and those that it reads from, or only
  /// what reads weights.
  enum class Bound : std::uint8_t { All, ReadersOfWeights };
  PartOnMesh(const ModelPart& part, const ModelParts& parts, MeshTables& tables, Bound bound = Bound::All);

  [[nodiscard]] bool empty() const { return part_.operators.empty(); }

 protected:
  [[nodiscard]] bool is_inside(OperatorId op) const;
  [[nodiscard]] const Recomputation& recomputation(std::size_t kind) const {
    return *parts_.recomputation[kind];
  }
  [[nodiscard]] bool again(std::size_t kind, OperatorId op) const {
    return recomputation(kind).any() && recomputation(kind).again(op);
  }
  [[nodiscard]] TensorId tensor_of(UseRef use) const {
    return graph_.op(use.op).uses[static_cast<std::size_t>(use.use)].tensor;
  }
  /// Returns the plan from what makes the tensor to the use.
  [[nodiscard]] const CommunicationPlan& forward_plan(UseRef use) const;
  /// Whether inputs that were gathered are freed, and gathered again for backward.
  [[nodiscard]] bool gathers_again() const;
  /// Whether the plan of this use brings devices more than their own part, so that they gather it.
  [[nodiscard]] bool is_gathered(UseRef use, const CommunicationPlan& plan) const;
  /// Returns the plan from those that make the tensor's gradient to what makes the tensor.
  [[nodiscard]] const CommunicationPlan& gradient_plan(TensorId tensor) const;
  /// The least share of a transfer's time that products do not hide (Runtime::tensor_overlap).
  [[nodiscard]] double least_share(const CommunicationPlan& plan) const;
  /// Returns the devices on which a reader waits for what the same device gives for this term; in no order,
  /// some maybe more than once.
  [[nodiscard]] static std::vector<DeviceId> devices_that_give_and_take(const CommunicationPlan& plan,
                                                                        std::int32_t term);
  /// Whether the tensor has a gradient, and all that add to it are in the part.
  [[nodiscard]] bool has_whole_gradient(TensorId tensor) const;
  /// The layouts of what adds to the gradient, each once, in the order of the makers.
  [[nodiscard]] LayoutIds gradient_terms(TensorId tensor) const;

  /// How readers in the part have a weight.
  struct ReaderLayouts {
    LayoutIds layouts;  ///< each once
    bool alone = true;  ///< no other part reads it
  };
  [[nodiscard]] ReaderLayouts reader_layouts(TensorId weight) const;

  const ModelPart& part_;
  const ModelParts& parts_;
  MeshTables& tables_;
  const OperatorGraph& graph_;
};

}  // namespace pipesim
