#include "tools/analysis/plans/breakdown/communication_cause.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "search/baselines/heads.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// A set of AxisRole, a bit each.
using Roles = std::uint32_t;
constexpr Roles bit(AxisRole role) { return Roles{1} << static_cast<unsigned>(role); }

// A split factor of an operator; shards are numbered row-major, see ParallelConfig.
struct SplitFactor {
  std::int64_t stride = 1, degree = 1;
  Roles role = 0;
};

std::vector<SplitFactor> split_factors(OperatorId op, const BoundOperator& bound, const ModelAxes& axes) {
  std::vector<SplitFactor> splits;
  std::int64_t stride = 1;
  for (std::size_t f = bound.config.degrees.size(); f-- > 0;) {
    const std::int64_t degree = bound.config.degrees[f];
    if (degree > 1) splits.push_back({stride, degree, bit(axes.role(op, static_cast<FactorIndex>(f)))});
    stride *= degree;
  }
  return splits;
}

// The roles of the factors along which shards of these devices differ; devices without a shard do not count.
Roles differing(std::span<const DeviceId> group, const BoundOperator& bound,
                std::span<const SplitFactor> splits) {
  Roles roles = 0;
  std::int64_t first = -1;
  for (const DeviceId d : group) {
    const std::int64_t shard = bound.shard_of_device[d.index()];
    if (first < 0) first = shard;
    if (shard < 0) continue;
    for (const SplitFactor& s : splits) {
      if (shard / s.stride % s.degree != first / s.stride % s.degree) roles |= s.role;
    }
  }
  return roles;
}

Roles differing(std::span<const UseRef> uses, const CommunicationPlan& plan, const BoundStrategy& strategy,
                const ModelAxes& axes) {
  Roles roles = 0;
  for (const UseRef use : uses) {
    const BoundOperator& bound = *strategy[use.op.index()];
    const std::vector<SplitFactor> splits = split_factors(use.op, bound, axes);
    if (splits.empty()) continue;
    for (const CommunicationTask& task : plan.tasks) roles |= differing(task.group, bound, splits);
  }
  return roles;
}

CommunicationCause cause_of_roles(Roles roles, bool between_contexts) {
  constexpr Roles sequence = bit(AxisRole::Sequence) | bit(AxisRole::TokenGroups);
  if ((roles & bit(AxisRole::Experts)) != 0) return CommunicationCause::Expert;
  if ((roles & sequence) != 0)
    return between_contexts ? CommunicationCause::Context : CommunicationCause::Sequence;
  return roles == bit(AxisRole::Samples) ? CommunicationCause::Data : CommunicationCause::Tensor;
}

// What tensor parallelism divides by heads, features or words. Attention and scans may exchange these for
// their sequence, and experts have a mesh of their own.
bool keeps_contexts(OperatorId op, const Operator& o, const ModelAxes& axes) {
  const auto has = [&](AxisRole role) { return !axes.factors(op, role).empty(); };
  return (has(AxisRole::Heads) || has(AxisRole::Features) || has(AxisRole::Vocabulary)) &&
         !is_multi_head(o) && !is_multi_head_scan(o) && !axes.is_of_experts(op);
}

bool apart(OperatorId a, OperatorId b, const BoundStrategy& strategy,
           const std::optional<Pipeline>& pipeline) {
  if (pipeline) return pipeline->stage_of[a.index()] != pipeline->stage_of[b.index()];
  const SharedList<std::int32_t>& shards = strategy[b.index()]->shard_of_device;
  return std::ranges::none_of(strategy[a.index()]->config.devices,
                              [&](DeviceId d) { return shards[d.index()] >= 0; });
}

}  // namespace

ContextParts::ContextParts(const PlanContents& contents, const BoundStrategy& strategy, const ModelAxes& axes)
    : context_of_device_(contents.costs().topology().num_devices()) {
  using PartCut = std::pair<std::int64_t, std::int64_t>;  // stride and degree of a split of the sequence
  std::set<std::pair<std::vector<DeviceId>, std::vector<PartCut>>> seen;
  std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> refined;  // by context so far, and part of it
  for (std::int32_t way = 0; way < contents.ways(); ++way) {
    const BoundStrategy& used = contents.strategy_of(way, strategy);
    for (std::size_t i = 0; i < used.size(); ++i) {
      const BoundOperator& bound = *used[i];
      if (!keeps_contexts(OperatorId(i), *bound.op, axes)) continue;
      std::vector<PartCut> cuts;
      for (const SplitFactor& s : split_factors(OperatorId(i), bound, axes)) {
        if (s.role == bit(AxisRole::Sequence)) cuts.emplace_back(s.stride, s.degree);
      }
      if (cuts.empty() || !seen.emplace(bound.config.devices, cuts).second) continue;
      for (const DeviceId d : bound.config.devices) {
        std::int64_t part = 0;
        for (const auto& [stride, degree] : cuts)
          part = part * degree + bound.shard_of_device[d.index()] / stride % degree;
        std::int32_t& context = context_of_device_[d.index()];
        const auto next = static_cast<std::int32_t>(refined.size()) + 1;
        context = refined.try_emplace({context, part}, next).first->second;
      }
    }
  }
}

bool ContextParts::differ(std::span<const DeviceId> group) const {
  return std::ranges::any_of(group, [&](DeviceId d) {
    return context_of_device_[d.index()] != context_of_device_[group.front().index()];
  });
}

std::string_view name_of(CommunicationCause cause) {
  constexpr ByCause<std::string_view> names{"tensor", "sequence", "context", "expert",
                                            "data",   "pipeline", "sharding"};
  return names[static_cast<std::size_t>(cause)];
}

CommunicationCause cause_of(const Wiring& wiring, const CommunicationPlan& whole,
                            const BoundStrategy& strategy, const std::optional<Pipeline>& pipeline,
                            const ModelAxes& axes, const ContextParts& contexts) {
  if (wiring.kind == TaskKind::GradientSync) return CommunicationCause::Data;
  if (wiring.kind == TaskKind::WeightGather) return CommunicationCause::Sharding;
  for (const UseRef from : wiring.sources) {
    for (const UseRef to : wiring.destinations) {
      if (apart(from.op, to.op, strategy, pipeline)) return CommunicationCause::Pipeline;
    }
  }
  const Roles roles = differing(wiring.sources, whole, strategy, axes) |
                      differing(wiring.destinations, whole, strategy, axes);
  return cause_of_roles(roles, std::ranges::any_of(whole.tasks, [&](const CommunicationTask& task) {
                          return contexts.differ(task.group);
                        }));
}

CommunicationCause cause_of_statistic(OperatorId op, std::span<const DeviceId> group,
                                      const BoundStrategy& strategy, const ModelAxes& axes,
                                      const ContextParts& contexts) {
  const BoundOperator& bound = *strategy[op.index()];
  const Roles roles = differing(group, bound, split_factors(op, bound, axes));
  return cause_of_roles(roles, contexts.differ(group));
}

std::vector<CommunicationCause> causes_of_tasks(const SimulatedPart& part, const BoundStrategy& strategy,
                                                const DeviceGroups& groups, const ModelAxes& axes) {
  const PlanContents& contents = part.contents();
  const ContextParts contexts(contents, strategy, axes);
  std::vector<CommunicationCause> causes(part.dag().num_tasks(), CommunicationCause::Tensor);
  // Microbatches have equal wirings.
  std::map<std::tuple<const CommunicationPlan*, TensorId, TaskKind>, CommunicationCause> known;
  for (const Wiring& wiring : part.expanded().wirings()) {
    if (wiring.plan->tasks.empty()) continue;
    const auto [at, fresh] = known.try_emplace({wiring.plan, wiring.tensor, wiring.kind});
    if (fresh) {
      stop_if_late();
      const CommunicationPlan& whole = part.folding() ? part.folding()->whole(*wiring.plan) : *wiring.plan;
      at->second = cause_of(wiring, whole, contents.strategy_of(std::max(0, wiring.microbatch), strategy),
                            contents.options().pipeline, axes, contexts);
    }
    std::fill_n(causes.begin() + static_cast<std::ptrdiff_t>(wiring.first_task.index()),
                wiring.plan->tasks.size(), at->second);
  }
  for (std::size_t t = 0; t < causes.size(); ++t) {
    const TaskLabel& label = part.labels()[t];
    if (!is_inner(label.kind)) continue;
    causes[t] = cause_of_statistic(
        label.op, groups[t], contents.strategy_of(std::max(0, label.microbatch), strategy), axes, contexts);
  }
  return causes;
}

}  // namespace pipesim
