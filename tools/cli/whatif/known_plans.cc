#include "tools/cli/whatif/known_plans.h"

#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/whatif/plan_kind.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/subject_options.h"
#include "topologies/changes/topology_changes.h"

namespace pipesim {
namespace {

// Returns whether a change of the topology is one of rates, on which no strategy depends.
bool is_rate(std::string_view change) {
  return change.starts_with("device.") || change.starts_with("inter_node.") ||
         change.starts_with("intra_node.") || change.starts_with("slow:");
}

// The text of a topology without changes of rates.
std::string without_rates(const std::string& topology) {
  std::string kept;
  for (std::size_t from = 0, end = 0; end != std::string::npos; from = end + 1) {
    end = topology.find('+', from);
    const std::string part = topology.substr(from, end == std::string::npos ? end : end - from);
    if (!is_rate(part)) kept += (kept.empty() ? "" : "+") + part;
  }
  return kept;
}

// Where the point's topology is the plan's with changes of rates behind it, only these changes are made.
Topology topology_at(const Arguments& point, const Topology& of_plan) {
  if (!point.has("topology")) return of_plan;
  const std::string& whole = point.text("topology");
  const std::string plain = without_rates(whole);
  if (whole == plain) return of_plan;
  if (!whole.starts_with(plain + "+") || plain != of_plan.name()) return topology_of(point);
  return changed_topology(of_plan, std::string_view(whole).substr(plain.size() + 1), whole);
}

}  // namespace

KnownPlan::Prices::Prices(Topology t, const Subject& s)
    : topology(std::move(t)), costs(topology, pointer_to(s.calibration), s.plan.runtime) {}

std::pair<Evaluated, KnownPlan::Priced> KnownPlan::score(const Arguments& point) {
  auto prices = std::make_unique<Prices>(topology_at(point, subject.topology), subject);
  Priced priced = one_of_before();
  if (priced.evaluator) {
    priced.evaluator = std::move(*priced.evaluator).with(prices->costs);
  } else {
    priced.evaluator.emplace(subject.graph, prices->costs, subject.plan.options);
  }
  priced.prices = std::move(prices);
  Evaluated found = priced.evaluator->evaluate(subject.plan.strategy, {.peaks = true});
  return {std::move(found), std::move(priced)};
}

void KnownPlan::use_again(Priced priced) {
  const std::scoped_lock lock(mutex_);
  before_.push_back(std::move(priced));
}

KnownPlan::Priced KnownPlan::one_of_before() {
  const std::scoped_lock lock(mutex_);
  if (before_.empty()) return {};
  Priced priced = std::move(before_.back());
  before_.pop_back();
  return priced;
}

std::shared_ptr<KnownPlan> KnownPlans::of(const Arguments& point) {
  // Baselines are chosen by costs, too.
  const bool by_costs = !point.has("plan") && !point.has("recipe");
  const std::string whole = point.has("topology") ? point.text("topology") : "";
  const std::string topology = by_costs ? whole : without_rates(whole);
  std::string key = topology;
  for (const auto& [option, value] : point.values()) {
    if (option != "topology") key += fmt::format("\n{}={}", option, value);
  }
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  std::ostringstream warnings;
  const Arguments plain = point.has("topology") ? point.with("topology", topology) : point;
  Subject subject = subject_of("whatif", plain, warnings);
  std::string kind =
      kind_of_plan(subject.graph, subject.plan.strategy, subject.plan.options, subject.topology);
  auto made = std::make_shared<KnownPlan>(std::move(subject), std::move(kind));
  const std::scoped_lock lock(mutex_);
  return known_.emplace(key, std::move(made)).first->second;
}

}  // namespace pipesim
