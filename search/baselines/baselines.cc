#include "search/baselines/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "search/baselines/expert.h"
#include "search/baselines/layer_wise.h"
#include "search/baselines/placement.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

struct NamedBaseline {
  std::string_view name;
  Strategy (*strategy)(const OperatorGraph&, const CostModel&);
};

constexpr std::array<NamedBaseline, 4> kBaselines{{{"single-device", single_device_strategy},
                                                   {"data-parallel", data_parallel_strategy},
                                                   {"model-parallel", model_parallel_strategy},
                                                   {"expert", expert_strategy}}};

constexpr std::array<std::string_view, kBaselines.size()> names() {
  std::array<std::string_view, kBaselines.size()> result;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = kBaselines[i].name;
  return result;
}

constexpr auto kNames = names();

Baseline score(const NamedBaseline& baseline, Evaluator& evaluator) {
  Baseline result{std::string(baseline.name), std::nullopt, ""};
  Strategy strategy = baseline.strategy(evaluator.graph(), evaluator.costs());
  const BoundStrategy bound = evaluator.builder().bind(strategy);
  const Evaluation evaluation = evaluator.score(bound);
  result.scored = ScoredStrategy{std::move(strategy), evaluation};
  if (evaluation.feasible()) return result;
  evaluator.evaluate(bound);  // with all tasks, for the peaks
  const auto peaks = peak_memory(evaluator.builder(), bound, evaluator.timeline());
  result.infeasible = memory_shortage(peaks, evaluator.topology()).value_or("does not fit into memory");
  return result;
}

}  // namespace

std::span<const std::string_view> baseline_names() { return kNames; }

Strategy baseline_strategy(std::string_view name, const OperatorGraph& graph, const CostModel& costs) {
  for (const NamedBaseline& baseline : kBaselines) {
    if (baseline.name == name) return baseline.strategy(graph, costs);
  }
  throw InputError(fmt::format("unknown baseline \"{}\", allowed: {}", name, fmt::join(kNames, ", ")));
}

std::string idle_devices(const Strategy& strategy, const Topology& topology) {
  std::vector<bool> used(topology.num_devices(), false);
  for (const ParallelConfig& config : strategy) {
    for (const DeviceId d : config.devices) used[d.index()] = true;
  }
  const auto busy = static_cast<std::size_t>(std::count(used.begin(), used.end(), true));
  return busy == used.size() ? "" : fmt::format("{} of {} devices used", busy, used.size());
}

std::vector<Baseline> score_baselines(Evaluator& evaluator) {
  std::vector<Baseline> scores;
  for (const NamedBaseline& baseline : kBaselines) scores.push_back(score(baseline, evaluator));
  return scores;
}

const Baseline* fastest_baseline(const std::vector<Baseline>& baselines) {
  const Baseline* best = nullptr;
  for (const Baseline& b : baselines) {
    if (!b.infeasible.empty() || !b.scored) continue;
    if (!best || b.scored->evaluation.time < best->scored->evaluation.time) best = &b;
  }
  return best;
}

const Baseline* nearest_baseline(const std::vector<Baseline>& baselines) {
  const Baseline* nearest = nullptr;
  for (const Baseline& b : baselines) {
    if (!b.scored) continue;
    if (!nearest || b.scored->evaluation.overflow < nearest->scored->evaluation.overflow) nearest = &b;
  }
  return nearest;
}

}  // namespace pipesim
