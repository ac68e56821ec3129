#include "search/baselines/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "search/baselines/expert.h"
#include "search/baselines/layer_wise.h"
#include "search/baselines/placement.h"
#include "sim/base/deadline.h"
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
  try {
    Strategy strategy = baseline.strategy(evaluator.graph(), evaluator.costs());
    if (baseline.name != "single-device")
      result.idle = idle_devices(strategy, evaluator.graph(), evaluator.topology());
    const BoundStrategy bound = evaluator.contents().bind(strategy);
    const Evaluated found = evaluator.evaluate(bound, {.peaks = true});
    result.scored = Scored<Strategy>{std::move(strategy), *found.cost};
    if (!found.cost->feasible()) {
      result.infeasible =
          memory_shortage(found.peaks, evaluator.topology()).value_or("does not fit into memory");
      result.shortage = largest_shortage(found.peaks, evaluator.topology());
    }
  } catch (const OutOfTime&) {
    result.infeasible = kNotScored;
  }
  return result;
}

bool splits_samples_alone(const Strategy& strategy, const OperatorGraph& graph, std::int64_t parts) {
  bool any = false;
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    const FactorSplit samples = sample_split(graph.operators()[i], parts);
    for (std::size_t f = 0; f < strategy[i].degrees.size(); ++f) {
      const std::int64_t degree = strategy[i].degrees[f];
      const bool by_samples = static_cast<FactorIndex>(f) == samples.factor && degree == parts;
      if (degree != 1 && !by_samples) return false;
      any = any || by_samples;
    }
  }
  return any;
}

}  // namespace

std::span<const std::string_view> baseline_names() { return kNames; }

Strategy baseline_strategy(std::string_view name, const OperatorGraph& graph, const CostModel& costs) {
  for (const NamedBaseline& baseline : kBaselines) {
    if (baseline.name == name) return baseline.strategy(graph, costs);
  }
  throw InputError(fmt::format("unknown baseline \"{}\", allowed: {}", name, fmt::join(kNames, ", ")));
}

std::size_t devices_used(const Strategy& strategy, const Topology& topology) {
  std::vector<bool> used(topology.num_devices(), false);
  for (const ParallelConfig& config : strategy) {
    for (const DeviceId d : config.devices) used[d.index()] = true;
  }
  return static_cast<std::size_t>(std::count(used.begin(), used.end(), true));
}

std::string idle_devices(const Strategy& strategy, const OperatorGraph& graph, const Topology& topology) {
  const auto busy = static_cast<std::int64_t>(devices_used(strategy, topology));
  const auto all = static_cast<std::int64_t>(topology.num_devices());
  if (busy == all) return "";
  // Samples are split evenly, so that as many devices as divide the batch have some.
  std::int64_t share = all;
  while (graph.batch() % share != 0) --share;
  const std::string reason = busy == share && busy > 1 && splits_samples_alone(strategy, graph, share)
                                 ? fmt::format(": batch {} can't be split in {}", graph.batch(), all)
                                 : "";
  return fmt::format("{} of {} devices used{}", busy, all, reason);
}

std::vector<Baseline> score_baselines(Evaluator& evaluator) {
  std::vector<Baseline> scores;
  const Deadline forever, *all = deadline_kept();
  for (const NamedBaseline& baseline : kBaselines) {
    const auto left = static_cast<double>(kBaselines.size() - scores.size());
    const Deadline share = all ? all->within(all->left() / left) : forever;
    const KeepTo keep(share);
    scores.push_back(score(baseline, evaluator));
  }
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
    const auto lacks = [](const Baseline& a) { return std::pair(a.shortage, a.scored->evaluation.overflow); };
    if (!nearest || lacks(b) < lacks(*nearest)) nearest = &b;
  }
  return nearest;
}

}  // namespace pipesim
