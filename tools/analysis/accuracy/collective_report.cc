#include "tools/analysis/accuracy/collective_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "tools/render/base/table.h"

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

// "4 MiB" where it is a whole number of such, else "25 MB".
std::string size_text(Bytes size) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  std::int64_t number = size.value;
  for (; number % 1024 == 0 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  return unit == 0 ? pretty(size) : fmt::format("{} {}", number, kUnits[unit]);
}

std::string gigabytes(BytesPerSecond rate) { return fmt::format("{:.2f}", rate.value / 1e9); }

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

std::string to_text(std::span<const CollectiveRow> rows) {
  Table table({{"size", Align::Right},
               {"bytes", Align::Right},
               {"time", Align::Right},
               {"algbw GB/s", Align::Right},
               {"busbw GB/s", Align::Right},
               {"algorithm"},
               {"next"}});
  for (const CollectiveRow& row : rows) {
    const auto next =
        std::ranges::find_if(row.algorithms, [&](const auto& a) { return a.first != row.algorithm; });
    table.add({size_text(row.size), std::to_string(row.size.value), pretty(row.time),
               gigabytes(row.algorithm_bandwidth), gigabytes(row.bus_bandwidth),
               fmt::format("{}{}", row.algorithm, row.measured ? ", calibrated" : ""),
               next == row.algorithms.end() ? "" : fmt::format("{} {}", next->first, pretty(next->second))});
  }
  return table.str(2);
}

nlohmann::ordered_json json_of(const CollectiveRow& row) {
  nlohmann::ordered_json algorithms = nlohmann::ordered_json::object();
  for (const auto& [name, time] : row.algorithms) algorithms[std::string(name)] = time.value;
  return {{"bytes", row.size.value},
          {"time_s", row.time.value},
          {"algorithm_bandwidth", row.algorithm_bandwidth.value},
          {"bus_bandwidth", row.bus_bandwidth.value},
          {"algorithm", row.algorithm},
          {"calibrated", row.measured},
          {"algorithms_s", algorithms}};
}

}  // namespace pipesim
