#include "tools/analysis/plans/breakdown/memory_by_stage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/render/base/table.h"

namespace pipesim {
namespace {

std::string stages_text(const StageMemory& of) { return fmt::format("{}", fmt::join(of.stages, ",")); }

// The columns that fit into a line.
std::vector<const StageMemory*> chosen_columns(const std::vector<StageMemory>& stages) {
  constexpr std::size_t kMost = 8;
  std::vector<const StageMemory*> chosen;
  if (stages.size() <= kMost) {
    for (const StageMemory& s : stages) chosen.push_back(&s);
    return chosen;
  }
  const auto fullest =
      std::ranges::max_element(stages, {}, [](const StageMemory& s) { return s.memory.peak; });
  for (const StageMemory* s : {&stages.front(), &*fullest, &stages.back()}) {
    if (chosen.empty() || chosen.back() != s) chosen.push_back(s);
  }
  return chosen;
}

// "optimizer_state"
std::string key_of(MemoryCategory category) {
  std::string key(name_of(category));
  std::ranges::replace(key, ' ', '_');
  return key;
}

Bytes of_communicators(const StageMemory& s, const Topology& topology) {
  return s.memory.communicators * topology.kind(s.device).memory_overhead.communicator;
}

Bytes of_frameworks(const StageMemory& s, const Topology& topology) {
  return topology.kind(s.device).memory_overhead.beside(s.memory.peak);
}

void add_row(Table& table, const std::string& name, const std::vector<const StageMemory*>& columns,
             const auto& cell) {
  std::vector<std::string> cells{name};
  for (const StageMemory* s : columns) cells.push_back(cell(*s));
  table.add(std::move(cells));
}

}  // namespace

std::vector<StageMemory> memory_by_stage(const BoundStrategy& strategy,
                                         const std::optional<Pipeline>& pipeline,
                                         const std::vector<DeviceMemory>& peaks) {
  std::vector<DeviceId> fullest(pipeline ? static_cast<std::size_t>(pipeline->num_stages()) : 1);
  for (std::size_t i = 0; i < strategy.size(); ++i) {
    DeviceId& of_stage = fullest[pipeline ? static_cast<std::size_t>(pipeline->stage_of[i]) : 0];
    for (const DeviceId d : strategy[i]->config.devices) {
      const Bytes peak = peaks[d.index()].peak;
      const Bytes most = of_stage.valid() ? peaks[of_stage.index()].peak : Bytes(-1);
      if (peak > most || (peak == most && d < of_stage)) of_stage = d;
    }
  }
  std::vector<StageMemory> stages;
  for (std::size_t s = 0; s < fullest.size(); ++s) {
    if (!fullest[s].valid()) continue;
    const auto same = std::ranges::find(stages, fullest[s], &StageMemory::device);
    StageMemory& of = same != stages.end()
                          ? *same
                          : stages.emplace_back(StageMemory{{}, fullest[s], peaks[fullest[s].index()]});
    of.stages.push_back(static_cast<std::int32_t>(s));
  }
  return stages;
}

std::string memory_table(const std::vector<StageMemory>& stages, const Topology& topology) {
  const std::vector<const StageMemory*> columns = chosen_columns(stages);
  std::vector<Table::Column> titles{{"memory of stage"}};
  for (const StageMemory* s : columns) titles.push_back({stages_text(*s), Align::Right});
  Table table(std::move(titles));
  add_row(table, "fullest device", columns,
          [&](const StageMemory& s) { return topology.device(s.device).name; });
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    const auto bytes = [c](const StageMemory& s) { return s.memory.at_peak[c]; };
    if (std::ranges::all_of(stages, [&](const StageMemory& s) { return bytes(s).value == 0; })) continue;
    add_row(table, std::string(name_of(static_cast<MemoryCategory>(c))), columns,
            [&](const StageMemory& s) { return pretty(bytes(s)); });
  }
  add_row(table, "peak", columns, [](const StageMemory& s) { return pretty(s.memory.peak); });
  if (std::ranges::any_of(stages,
                          [&](const StageMemory& s) { return of_communicators(s, topology).value > 0; }))
    add_row(table, "communicators", columns, [&](const StageMemory& s) {
      return fmt::format("{} ({})", pretty(of_communicators(s, topology)), s.memory.communicators);
    });
  if (std::ranges::any_of(stages, [&](const StageMemory& s) { return of_frameworks(s, topology).value > 0; }))
    add_row(table, "frameworks", columns,
            [&](const StageMemory& s) { return pretty(of_frameworks(s, topology)); });
  return table.str(2);
}

nlohmann::ordered_json json_of(const std::vector<StageMemory>& stages, const Topology& topology) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const StageMemory& s : stages) {
    nlohmann::ordered_json categories = nlohmann::ordered_json::object();
    for (std::size_t c = 0; c < kMemoryCategories; ++c)
      categories[key_of(static_cast<MemoryCategory>(c))] = s.memory.at_peak[c].value;
    list.push_back({{"stages", s.stages},
                    {"device", topology.device(s.device).name},
                    {"peak_bytes", s.memory.peak.value},
                    {"at_peak_bytes", categories},
                    {"communicators", s.memory.communicators},
                    {"communicators_bytes", of_communicators(s, topology).value},
                    {"frameworks_bytes", of_frameworks(s, topology).value}});
  }
  return list;
}

}  // namespace pipesim
