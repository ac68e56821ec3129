#include "taskgraph/weight_versions.h"

namespace pipesim {

WeightVersions::WeightVersions(const std::optional<Pipeline>& pipeline, std::int32_t microbatches) {
  if (!pipeline) return;
  const ScheduleKind& kind = schedule_kind(pipeline->schedule);
  trained_ = kind.weights != WeightChange::Never;
  if (kind.versions_behind == nullptr) return;
  every_ = kind.weights == WeightChange::AfterMicrobatch ? 1 : microbatches;
  for (std::int32_t s = 0; s < pipeline->num_stages(); ++s)
    behind_.push_back(kind.versions_behind(pipeline->num_stages(), s));
}

std::int32_t WeightVersions::first_regular() const {
  return several() ? (std::ranges::max(behind_) + 1) * every_ : 0;
}

TensorId weight_of_several_stages(const OperatorGraph& graph, const Pipeline& pipeline) {
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensors()[t].kind != TensorKind::Weight) continue;
    const auto uses = graph.consumers(TensorId(t));
    const auto stage = [&](UseRef use) { return pipeline.stage_of[use.op.index()]; };
    if (std::ranges::any_of(uses, [&](UseRef use) { return stage(use) != stage(uses.front()); }))
      return TensorId(t);
  }
  return {};
}

}  // namespace pipesim
