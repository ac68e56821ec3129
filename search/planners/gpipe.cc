#include "search/planners/gpipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "search/baselines/layer_wise.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

// How many parts are needed when none may exceed the limit, taking as much as fits into each.
std::int32_t parts_within(const std::vector<double>& costs, double limit) {
  std::int32_t parts = 1;
  double sum = 0;
  for (const double cost : costs) {
    if (sum > 0 && sum + cost > limit) {
      ++parts;
      sum = 0;
    }
    sum += cost;
  }
  return parts;
}

// The least of all sums of runs that are a limit within which `parts` are enough.
double least_limit(const std::vector<double>& costs, std::int32_t parts) {
  double low = *std::ranges::max_element(costs), high = std::accumulate(costs.begin(), costs.end(), 0.0);
  constexpr int kSteps = 100;  // more than a double has bits
  for (int step = 0; step < kSteps && low < high; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (parts_within(costs, middle) <= parts ? high : low) = middle;
  }
  return parts_within(costs, low) <= parts ? low : high;
}

// Stages of whole layers; nothing when there are too few, or when data would go back.
std::optional<std::vector<std::int32_t>> stages_by_layers(const OperatorGraph& graph,
                                                          const std::vector<double>& seconds,
                                                          const std::vector<std::size_t>& layer_of,
                                                          std::int32_t stages) {
  std::vector<double> costs(*std::ranges::max_element(layer_of) + 1, 0.0);
  for (std::size_t i = 0; i < layer_of.size(); ++i) costs[layer_of[i]] += seconds[i];
  if (costs.size() < static_cast<std::size_t>(stages)) return std::nullopt;
  const std::vector<std::int32_t> part_of = balanced_parts(costs, stages);
  std::vector<std::int32_t> stage_of;
  for (const std::size_t layer : layer_of) stage_of.push_back(part_of[layer]);
  if (use_before_its_data(graph, stage_of).op.valid()) return std::nullopt;
  return stage_of;
}

std::vector<std::int32_t> stages_of(const OperatorGraph& graph, const CostModel& costs, std::int32_t stages) {
  std::vector<double> seconds;
  for (const Operator& op : graph.operators())
    seconds.push_back(compute_time(graph, op, costs, DeviceId(0)).value);
  for (const SharedWeights shared : {SharedWeights::Join, SharedWeights::Apart}) {
    if (auto found = stages_by_layers(graph, seconds, layer_numbers(graph, shared), stages)) return *found;
  }
  return balanced_parts(seconds, stages);  // operators are in a topological order: nothing goes back
}

}  // namespace

std::vector<std::int32_t> balanced_parts(const std::vector<double>& costs, std::int32_t parts) {
  const std::size_t n = costs.size();
  if (parts < 1 || static_cast<std::size_t>(parts) > n)
    throw InputError(fmt::format("{} for {}, allowed: 1 to {}", counted(parts, "stage"),
                                 counted(static_cast<std::int64_t>(n), "layer"), n));
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kRounding = 1e-9;
  const double limit = least_limit(costs, parts) * (1 + kRounding);
  std::vector<double> until(n + 1, 0.0);  // sums of the first so many
  for (std::size_t i = 0; i < n; ++i) until[i + 1] = until[i] + costs[i];
  // [parts][end]: the least sum of squares, and where the last part begins.
  std::vector<std::vector<double>> squares(1, std::vector<double>(n + 1, kInfinity));
  std::vector<std::vector<std::size_t>> begin(1, std::vector<std::size_t>(n + 1, 0));
  squares[0][0] = 0;
  for (std::size_t p = 1; p <= static_cast<std::size_t>(parts); ++p) {
    stop_if_late();
    squares.emplace_back(n + 1, kInfinity);
    begin.emplace_back(n + 1, 0);
    for (std::size_t end = p; end <= n; ++end) {
      for (std::size_t i = end; i-- >= p;) {
        const double sum = until[end] - until[i];
        if (sum > limit) break;
        const double all = squares[p - 1][i] + sum * sum;
        if (all < squares[p][end]) squares[p][end] = all, begin[p][end] = i;
      }
    }
  }
  std::vector<std::int32_t> part_of(n);
  for (std::size_t p = static_cast<std::size_t>(parts), end = n; p > 0; end = begin[p][end], --p) {
    for (std::size_t i = begin[p][end]; i < end; ++i) part_of[i] = static_cast<std::int32_t>(p) - 1;
  }
  return part_of;
}

PipelinedStrategy gpipe_strategy(const OperatorGraph& graph, const CostModel& costs,
                                 const PipelineDemand& demand) {
  const Topology& topology = costs.topology();
  const auto devices = static_cast<std::int32_t>(topology.num_devices());
  if (demand.chunks < 1 || demand.stages < 1 || demand.stages % demand.chunks != 0) {
    throw InputError(
        fmt::format("{} stages do not divide into groups of {} chunks", demand.stages, demand.chunks));
  }
  const std::int32_t groups = demand.stages / demand.chunks;
  if (groups > devices) {
    throw InputError(fmt::format("{} for {}, allowed: up to {}", counted(demand.stages, "stage"),
                                 counted(devices, "device"), std::int64_t{devices} * demand.chunks));
  }
  std::vector<StageGroup> stage_groups;
  for (std::int32_t d = 0; d < devices / groups * groups; ++d) {
    if (d % (devices / groups) == 0) stage_groups.emplace_back();
    stage_groups.back().emplace_back(d);
  }
  return data_parallel_stages(graph, topology, {demand.schedule, stages_of(graph, costs, demand.stages)},
                              stage_groups);
}

}  // namespace pipesim
