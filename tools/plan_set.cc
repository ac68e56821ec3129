#include "tools/plan_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/cost_model.h"
#include "search/baselines/baselines.h"
#include "search/candidates.h"
#include "search/evaluator.h"
#include "sim/base/rng.h"
#include "tools/calibration_use.h"

namespace pipesim {

std::vector<Option> plan_set_options(const std::string& verb, const std::string& random) {
  return {{"plan", "FILE", "", verb + " this plan too, as search -o writes it; may be given again", 0, true},
          {"random", "N", random, verb + " so many strategies drawn at random too"}};
}

PlanSet::PlanSet(OperatorGraph graph, Topology topology, PlanOptions options,
                 std::optional<Calibration> calibration)
    : graph_(std::move(graph)),
      topology_(std::move(topology)),
      options_(options),
      calibration_(std::move(calibration)) {}

void PlanSet::add_baselines() {
  const CostModel costs(topology_, pointer_to(calibration_));
  Evaluator evaluator(graph_, costs, options_);
  for (const Baseline& b : score_baselines(evaluator)) {
    if (!b.scored || !b.infeasible.empty()) continue;
    Plan plan;
    plan.options = options_;
    plan.found_by = b.name;
    plan.strategy = b.scored->strategy;
    add(b.name, std::move(plan));
  }
}

void PlanSet::add_random(std::int64_t count, std::uint64_t seed, std::int64_t first) {
  constexpr int most_draws = 20;
  const CandidateSet candidates(graph_, topology_);
  const Rng rng(seed);
  for (std::int64_t i = first; i < first + count; ++i) {
    Rng own = rng.split(static_cast<std::uint64_t>(i));
    for (int draw = 0; draw < most_draws; ++draw) {
      Plan plan;
      plan.options = options_;
      plan.found_by = fmt::format("random {}", i);
      for (std::size_t op = 0; op < graph_.operators().size(); ++op)
        plan.strategy.push_back(candidates.random(OperatorId(op), own));
      if (!fits(plan.strategy)) continue;
      add(fmt::format("random {}", i), std::move(plan));
      break;
    }
  }
}

void PlanSet::add_file(const std::string& path) {
  Plan plan = PlanFile::load(path).read(graph_, topology_);
  plans_.push_back({path, {graph_, topology_, std::move(plan), calibration_}});
}

void PlanSet::add(const std::string& name, Plan plan) {
  const auto same = std::find_if(plans_.begin(), plans_.end(), [&](const NamedSubject& other) {
    return other.subject.plan.strategy == plan.strategy && other.subject.plan.options == plan.options;
  });
  if (same == plans_.end()) {
    plans_.push_back({name, {graph_, topology_, std::move(plan), calibration_}});
  } else {
    same->name += ", " + name;
  }
}

bool PlanSet::fits(const Strategy& strategy) const {
  const CostModel costs(topology_, pointer_to(calibration_));
  Evaluator evaluator(graph_, costs, options_);
  return evaluator.evaluate(strategy).feasible();
}

}  // namespace pipesim
