#include "tools/render/plans/breakdown_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

Json causes_json(const ByCause<double>& exposed, const ByCause<double>& hidden) {
  const auto all_of = [](const ByCause<double>& seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  };
  Json by_cause = Json::object();
  for (std::size_t c = 0; c < kCommunicationCauses; ++c) {
    if (exposed[c] + hidden[c] <= 0) continue;
    by_cause[std::string(name_of(static_cast<CommunicationCause>(c)))] = {{"exposed_s", exposed[c]},
                                                                          {"hidden_s", hidden[c]}};
  }
  return {{"exposed_s", all_of(exposed)}, {"hidden_s", all_of(hidden)}, {"by_cause", by_cause}};
}

ByCause<double> in_seconds(const ByCause<std::int64_t>& parts, double of = 1) {
  ByCause<double> seconds{};
  for (std::size_t c = 0; c < kCommunicationCauses; ++c)
    seconds[c] = seconds_of_parts(static_cast<double>(parts[c])) / of;
  return seconds;
}

}  // namespace

std::string causes_text(const ByCause<double>& seconds, double all, double whole) {
  std::vector<std::pair<double, std::string_view>> parts;
  for (std::size_t c = 0; c < kCommunicationCauses; ++c) {
    if (seconds[c] > 0) parts.emplace_back(seconds[c], name_of(static_cast<CommunicationCause>(c)));
  }
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = fmt::format("{} ({})", pretty(Seconds(all)), percent(whole > 0 ? all / whole : 0));
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? ": " : ", ", parts[i].second, pretty(Seconds(parts[i].first)));
  return text;
}

nlohmann::ordered_json json_of(const std::vector<CommunicationTime>& times,
                               const std::vector<Nanoseconds>& compute, const Topology& topology) {
  const CommunicationSummary summary = summary_of(times, compute);
  const CommunicationTime& most = times[summary.most_exposed];
  Json of_most{{"device", topology.device(DeviceId(summary.most_exposed)).name}};
  of_most.update(causes_json(in_seconds(most.exposed), in_seconds(most.hidden)));
  return {{"mean", causes_json(summary.exposed, summary.hidden)}, {"most_exposed", of_most}};
}

namespace {

// A part's change, and the clause that tells it.
struct PartChange {
  double gain = 0;  // seconds that the second iteration has less of it
  std::string clause;
};

std::string amount(double gain) { return pretty(Seconds(std::abs(gain))); }
const char* direction(double gain) { return gain > 0 ? "less" : "more"; }

std::string share_text(double part, const IterationParts& of) {
  return fmt::format("{:.1f} %", of.iteration > 0 ? 100 * part / of.iteration : 0);
}

std::vector<PartChange> changes_of(const IterationParts& before, const IterationParts& after) {
  std::vector<PartChange> changes;
  const double idle = before.idle - after.idle;
  changes.push_back(
      {idle, fmt::format("devices idle {} {} ({} of the iteration instead of {})", amount(idle),
                         direction(idle), share_text(after.idle, after), share_text(before.idle, before))});
  const double compute = before.compute - after.compute;
  changes.push_back({compute, fmt::format("computing takes {} {}", amount(compute), direction(compute))});
  const double again = before.recompute - after.recompute;
  changes.push_back({again, fmt::format("{} {} is computed again", amount(again), direction(again))});
  for (std::size_t c = 0; c < kCommunicationCauses; ++c) {
    const double exposed = before.exposed[c] - after.exposed[c];
    const std::string_view name = name_of(static_cast<CommunicationCause>(c));
    changes.push_back({exposed, fmt::format("{} {} of {} communication is exposed", amount(exposed),
                                            direction(exposed), name)});
  }
  return changes;
}

// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& clauses) {
  std::string text;
  for (std::size_t i = 0; i < clauses.size(); ++i)
    text += (i == 0 ? "" : i + 1 == clauses.size() ? " and " : ", ") + clauses[i];
  return text;
}

}  // namespace

std::string because(const IterationParts& before, const IterationParts& after) {
  const double gained = before.iteration - after.iteration;
  if (gained <= 0) return "";
  constexpr double kWorthTelling = 0.1;
  std::vector<PartChange> changes = changes_of(before, after);
  std::ranges::stable_sort(changes, std::greater<>(), [](const PartChange& c) { return std::abs(c.gain); });
  std::vector<std::string> gains, losses;
  for (const PartChange& change : changes) {
    if (std::abs(change.gain) < kWorthTelling * gained) continue;
    (change.gain > 0 ? gains : losses).push_back(change.clause);
  }
  return fmt::format("because {}{}", listed(gains), losses.empty() ? "" : ", although " + listed(losses));
}

nlohmann::ordered_json json_of(const IterationParts& parts) {
  nlohmann::ordered_json json{{"iteration_s", parts.iteration},
                              {"compute_s", parts.compute},
                              {"recompute_s", parts.recompute},
                              {"idle_s", parts.idle},
                              {"exposed_s", nlohmann::ordered_json::object()}};
  for (std::size_t c = 0; c < kCommunicationCauses; ++c)
    json["exposed_s"][std::string(name_of(static_cast<CommunicationCause>(c)))] = parts.exposed[c];
  return json;
}

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

Bytes of_process(const StageMemory& s, const Topology& topology) {
  return topology.kind(s.device).memory_overhead.of_process(s.reserved, s.memory.communicators);
}

void add_row(Table& table, const std::string& name, const std::vector<const StageMemory*>& columns,
             const auto& cell) {
  std::vector<std::string> cells{name};
  for (const StageMemory* s : columns) cells.push_back(cell(*s));
  table.add(std::move(cells));
}

}  // namespace

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
  const bool beside = std::ranges::any_of(
      stages, [&](const StageMemory& s) { return !topology.kind(s.device).memory_overhead.is_none(); });
  if (!beside) return table.str(2);
  add_row(table, "reserved", columns, [&](const StageMemory& s) { return pretty(s.reserved); });
  if (std::ranges::any_of(stages,
                          [&](const StageMemory& s) { return of_communicators(s, topology).value > 0; }))
    add_row(table, "communicators", columns, [&](const StageMemory& s) {
      return fmt::format("{} ({})", pretty(of_communicators(s, topology)), s.memory.communicators);
    });
  add_row(table, "with context", columns,
          [&](const StageMemory& s) { return pretty(of_process(s, topology)); });
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
                    {"reserved_bytes", s.reserved.value},
                    {"process_bytes", of_process(s, topology).value}});
  }
  return list;
}

}  // namespace pipesim
