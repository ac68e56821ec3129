#include "tools/render/plans/baselines_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/render/base/table.h"

namespace pipesim {

nlohmann::ordered_json json_of(const std::vector<Baseline>& baselines) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Baseline& b : baselines) {
    nlohmann::ordered_json row{{"name", b.name}};
    if (b.infeasible.empty()) {
      row["iteration_time_s"] = to_seconds(b.scored->evaluation.time).value;
    } else {
      row[b.scored ? "infeasible" : "not_scored"] = b.infeasible;
    }
    if (!b.idle.empty()) row["idle_devices"] = b.idle;
    list.push_back(std::move(row));
  }
  return list;
}

std::string baselines_table(const std::vector<Baseline>& baselines, std::int64_t batch,
                            const std::string& what) {
  Nanoseconds fastest = 0;
  for (const Baseline& b : baselines) {
    if (b.infeasible.empty() && (fastest == 0 || b.scored->evaluation.time < fastest))
      fastest = b.scored->evaluation.time;
  }
  Table table({{what}, {"iteration", Align::Right}, {"samples/s", Align::Right}, {""}});
  for (const Baseline& b : baselines) {
    if (!b.infeasible.empty()) {
      table.add({b.name, "-", "-", b.infeasible});
      continue;
    }
    const Seconds time = to_seconds(b.scored->evaluation.time);
    const bool is_fastest = b.scored->evaluation.time == fastest;
    table.add({b.name, pretty(time), significant(static_cast<double>(batch) / time.value, 4),
               fmt::format("{}{}{}", is_fastest ? "fastest " + what : "",
                           is_fastest && !b.idle.empty() ? "; " : "", b.idle)});
  }
  return table.str(2);
}

}  // namespace pipesim
