#include "tools/analysis/accuracy/collective_report.h"

#include <algorithm>

namespace pipesim {
namespace {

double share_sent(Collective kind, double n) {
  switch (kind) {
    case Collective::AllReduce:
      return 2 * (n - 1) / n;
    case Collective::ReduceScatter:
    case Collective::AllGather:
    case Collective::AllToAll:
      return (n - 1) / n;
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Send:
      break;
  }
  return 1;
}

}  // namespace

std::vector<CollectiveRow> time_collective(const CostModel& costs, Collective kind,
                                           std::span<const DeviceId> group, std::span<const Bytes> sizes) {
  const CollectivePlan plan = costs.plan_collective(kind, group);
  // The cost model counts what all devices together exchange, nccl-tests the buffer of one.
  const auto devices = static_cast<std::int64_t>(group.size());
  const std::int64_t counted = kind == Collective::AllToAll ? devices : 1;
  std::vector<CollectiveRow> rows;
  for (const Bytes size : sizes) {
    const Bytes whole(counted * size.value);
    const CollectiveTime found = plan.at(whole);
    CollectiveRow row;
    row.size = size;
    row.time = found.duration;
    row.algorithm = found.algorithm;
    row.measured = plan.source_at(whole) != DurationSource::Analytic;
    row.algorithm_bandwidth = BytesPerSecond(static_cast<double>(size.value) / found.duration.value);
    row.bus_bandwidth =
        BytesPerSecond(row.algorithm_bandwidth.value * share_sent(kind, static_cast<double>(devices)));
    for (const CollectiveAlgorithm& a : plan.algorithms())
      row.algorithms.emplace_back(a.name, a.duration_at(whole));
    std::ranges::stable_sort(row.algorithms, {}, [](const auto& a) { return a.second; });
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace pipesim
