#include "tools/render/plans/memory_list_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

std::string switches_text(const MemoryList& list, Nanoseconds time) {
  if (list.switches.empty()) return "  no recomputation and no state sharding makes this peak smaller\n";
  Table table({{"with"}, {"peak", Align::Right}, {"frees", Align::Right}, {"iteration", Align::Right}});
  for (const MemoryList::Switch& s : list.switches)
    table.add(
        {s.setting, pretty(s.peak), pretty(list.peak - s.peak),
         fmt::format("{:+.1f} %", 100 * (static_cast<double>(s.time) / static_cast<double>(time) - 1))});
  return table.str(2);
}

}  // namespace

std::string to_text(const MemoryList& list, Nanoseconds time, const Topology& topology, std::size_t most) {
  Table table({{fmt::format("{} at its peak", topology.device(list.device).name)},
               {"what"},
               {"buffers", Align::Right},
               {"memory", Align::Right},
               {"share", Align::Right}});
  const auto share = [&](Bytes part) {
    return percent(static_cast<double>(part.value) / static_cast<double>(list.peak.value));
  };
  Bytes others;
  std::int64_t buffers = 0;
  for (std::size_t i = 0; i < list.lines.size(); ++i) {
    const MemoryList::Line& line = list.lines[i];
    if (i >= most) {
      others += line.bytes, buffers += line.buffers;
      continue;
    }
    table.add({line.operators, std::string(name_of(line.category)), fmt::format("{}", line.buffers),
               pretty(line.bytes), share(line.bytes)});
  }
  if (others.value > 0) table.add({"others", "", fmt::format("{}", buffers), pretty(others), share(others)});
  table.add({"peak", "", "", pretty(list.peak), ""});
  return table.str(2) + "\n" + switches_text(list, time);
}

nlohmann::ordered_json json_of(const MemoryList& list, const Topology& topology) {
  using Json = nlohmann::ordered_json;
  Json lines = Json::array(), switches = Json::array();
  for (const MemoryList::Line& line : list.lines)
    lines.push_back({{"operators", line.operators},
                     {"category", name_of(line.category)},
                     {"buffers", line.buffers},
                     {"bytes", line.bytes.value}});
  for (const MemoryList::Switch& s : list.switches)
    switches.push_back(
        {{"setting", s.setting}, {"peak_bytes", s.peak.value}, {"iteration_time_s", seconds(s.time)}});
  return {{"device", topology.device(list.device).name},
          {"peak_bytes", list.peak.value},
          {"lines", lines},
          {"switches", switches}};
}

}  // namespace pipesim
