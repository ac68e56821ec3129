#include "tools/analysis/plans/breakdown/iteration_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/units.h"

namespace pipesim {
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

IterationParts iteration_parts(Nanoseconds iteration, const std::vector<Nanoseconds>& compute,
                               const std::vector<Nanoseconds>& recompute,
                               const std::vector<CommunicationTime>& communication) {
  IterationParts parts;
  parts.iteration = to_seconds(iteration).value;
  double devices = 0, all = 0;
  for (std::size_t d = 0; d < compute.size(); ++d) {
    if (compute[d] == 0) continue;
    ++devices;
    all += to_seconds(compute[d]).value;
    if (d < recompute.size()) parts.recompute += to_seconds(recompute[d]).value;
  }
  if (devices == 0) {
    parts.idle = parts.iteration;
    return parts;
  }
  parts.recompute /= devices;
  parts.compute = all / devices - parts.recompute;
  const CommunicationSummary summary = summary_of(communication, compute);
  parts.exposed = summary.exposed;
  parts.idle = std::max(0.0, parts.iteration - all / devices - summary.all_exposed);  // but for rounding
  return parts;
}

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

}  // namespace pipesim
