#include "taskgraph/plan/weight_versions.h"

#include <algorithm>
#include <numeric>

namespace pipesim {

WeightVersions::WeightVersions(const std::optional<Pipeline>& pipeline, std::int32_t microbatches) {
  if (!pipeline) return;
  const ScheduleKind& kind = schedule_kind(pipeline->schedule);
  trained_ = kind.weights != WeightChange::Never;
  if (kind.versions_behind == nullptr) return;
  vertical_sync_ = kind.vertical_sync;
  std::vector<std::int32_t> replicas;
  for (std::int32_t s = 0; s < pipeline->num_stages(); ++s) replicas.push_back(pipeline->replicas_of(s));
  for (std::int32_t s = 0; s < pipeline->num_stages(); ++s) {
    every_.push_back(kind.weights == WeightChange::AfterMicrobatch ? replicas[index(s)] : microbatches);
    behind_.push_back(kind.versions_behind(replicas, s));
    period_ = std::lcm(period_, every_.back());
  }
  // Versions rise with microbatches, and after a period by as much in each.
  for (std::int32_t s = 0; s < pipeline->num_stages(); ++s) {
    const std::int32_t filled = std::max(behind_.front() * every_.front(), behind_[index(s)] * every(s));
    std::int32_t& copies = copies_.emplace_back(1);
    for (std::int32_t m = filled; m < filled + period_; ++m)
      copies = std::max(copies, change(s, m) - version(s, m) + 1);
    while (version(s, first_regular_) == 0) ++first_regular_;
  }
}

std::int32_t WeightVersions::version(std::int32_t stage, std::int32_t microbatch) const {
  const std::int32_t of = vertical_sync_ ? 0 : stage;
  const std::int32_t changes = std::max(0, change(of, microbatch) - behind_[index(of)]);
  return changes * every(of) / every(stage);
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
