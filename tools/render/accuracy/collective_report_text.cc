#include "tools/render/accuracy/collective_report_text.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "tools/render/base/table.h"

namespace pipesim {
namespace {

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
