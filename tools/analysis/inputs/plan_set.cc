#include "tools/analysis/inputs/plan_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/cost_model.h"
#include "search/baselines/baselines.h"
#include "search/candidates.h"
#include "search/evaluator.h"
#include "sim/base/rng.h"
#include "tools/analysis/inputs/calibration_use.h"

namespace pipesim {
namespace {

// All splits of an operator in random order, again and again, each on a random list of devices.
class SplitCycle {
 public:
  SplitCycle(const CandidateSet& candidates, OperatorId op, Rng rng)
      : candidates_(candidates), op_(op), rng_(rng) {
    for (std::size_t size = 0; size < candidates.num_sizes(); ++size) {
      for (std::size_t split = 0; split < candidates.num_splits(op, size); ++split)
        splits_.push_back({size, 0, split});
    }
  }

  ParallelConfig next() {
    if (next_ == 0) {
      for (std::size_t i = splits_.size(); i > 1; --i) std::swap(splits_[i - 1], splits_[rng_.below(i)]);
    }
    CandidateSet::Position at = splits_[next_];
    next_ = (next_ + 1) % splits_.size();
    at.list = rng_.below(candidates_.num_lists(at.size));
    return candidates_.config(op_, candidates_.index(op_, at));
  }

 private:
  const CandidateSet& candidates_;
  OperatorId op_;
  Rng rng_;
  std::vector<CandidateSet::Position> splits_;
  std::size_t next_ = 0;
};

}  // namespace

PlanSet::PlanSet(OperatorGraph graph, Topology topology, PlanOptions options,
                 std::optional<Calibration> calibration)
    : graph_(std::move(graph)),
      topology_(std::move(topology)),
      options_(std::move(options)),
      calibration_(std::move(calibration)) {}

void PlanSet::add_baselines() {
  const CostModel costs(topology_, pointer_to(calibration_));
  Evaluator evaluator(graph_, costs, options_);
  for (const Baseline& b : score_baselines(evaluator)) {
    if (!b.scored || !b.infeasible.empty()) continue;
    Plan plan;
    plan.options = options_;
    plan.found_by = b.name;
    plan.strategy = b.scored->plan;
    add(b.name, std::move(plan));
  }
}

void PlanSet::add_random(std::int64_t count, std::uint64_t seed) {
  constexpr std::int64_t most_draws = 20;
  const CandidateSet candidates(graph_, topology_);
  std::vector<SplitCycle> cycles;
  for (std::size_t op = 0; op < graph_.operators().size(); ++op)
    cycles.emplace_back(candidates, OperatorId(op), Rng(seed).split(op));
  std::int64_t found = 0;
  for (std::int64_t draw = 0; found < count && draw < most_draws * count; ++draw) {
    Plan plan;
    plan.options = options_;
    plan.seed = seed;
    for (SplitCycle& cycle : cycles) plan.strategy.push_back(cycle.next());
    if (!fits(plan.strategy)) continue;
    plan.found_by = fmt::format("random {}", ++found);
    const std::string name = plan.found_by;
    add(name, std::move(plan));
  }
}

void PlanSet::add_file(const std::string& path) {
  std::vector<OtherOrigin> others;
  Plan plan = read_plan(PlanFile::load(path), graph_, topology_, others);
  plans_.push_back({path, {graph_, topology_, std::move(plan), calibration_, "", std::move(others)}});
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
