#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "search/evaluator.h"
#include "search/recipes/model_axes.h"

namespace pipesim {

/// The dimension of parallelism that makes communication necessary.
enum class CommunicationCause : std::uint8_t {
  Tensor,    ///< tensor parallel: heads, features, vocabulary, and all that has no other cause
  Sequence,  ///< sequence parallel: the sequence is gathered or scattered
  Context,   ///< context parallel: devices with other parts of the sequence need each other's
  Expert,    ///< expert parallel: tokens go to their experts and back
  Data,      ///< data parallel: gradients of weights are added up
  Pipeline,  ///< pipeline parallel: from stage to stage
  Sharding   ///< state sharding: weights are gathered
};
constexpr std::size_t kCommunicationCauses = 7;
std::string_view name_of(CommunicationCause cause);  ///< "tensor", "sequence", …
template <class T>
using ByCause = std::array<T, kCommunicationCauses>;

/// Which devices have the same part of the sequence in operators with heads, features or words, where tensor
/// parallelism divides these. A division of the sequence there is context parallelism; one of norms and
/// residuals alone is sequence parallelism. Attention that exchanges heads for the sequence, and experts, do
/// not count.
class ContextParts {
 public:
  ContextParts(const PlanContents& contents, const BoundStrategy& strategy, const ModelAxes& axes);
  [[nodiscard]] bool differ(std::span<const DeviceId> group) const;

 private:
  std::vector<std::int32_t> context_of_device_;  // compares only devices of one stage
};

/// The cause of a transfer, from what it does. A recipe is not needed.
/// - It adds up gradients of weights: data, also where dp is 1. It gathers weights: sharding.
/// - It goes from one stage of a pipeline to another: pipeline. Without stages, the same holds where the
///   operators at its ends have no device in common.
/// - Otherwise from the roles (AxisRole) of the split factors along which the devices of its collectives and
///   messages have different shards of the operators at its two ends. Experts: expert. The sequence, or
///   groups of tokens: context where the devices of a task differ in ContextParts, else sequence. Only
///   samples: data. All else: tensor.
///
/// `whole`: the wiring's plan, of all devices. `strategy`: of all devices, in the wiring's microbatch.
CommunicationCause cause_of(const Wiring& wiring, const CommunicationPlan& whole,
                            const BoundStrategy& strategy, const std::optional<Pipeline>& pipeline,
                            const ModelAxes& axes, const ContextParts& contexts);

/// The cause of a statistic inside an operator, from the factors along which its group differs.
CommunicationCause cause_of_statistic(OperatorId op, std::span<const DeviceId> group,
                                      const BoundStrategy& strategy, const ModelAxes& axes,
                                      const ContextParts& contexts);

/// By task, the devices that communicate in it; empty for other tasks.
using DeviceGroups = std::vector<std::span<const DeviceId>>;

/// Returns the cause by task of what was simulated of the strategy, with labels. It means nothing for tasks
/// that do not communicate. `groups`: the real ones, see groups_of_tasks(). A task that stands for others
/// gives all of them its cause.
std::vector<CommunicationCause> causes_of_tasks(const SimulatedPart& part, const BoundStrategy& strategy,
                                                const DeviceGroups& groups, const ModelAxes& axes);

}  // namespace pipesim
