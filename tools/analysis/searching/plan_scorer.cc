#include "tools/analysis/searching/plan_scorer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "search/incremental_evaluator.h"

namespace pipesim {

// Plans of one model with the same options and runtime.
class PlanScorer::Sequence {
 public:
  Sequence(const std::shared_ptr<const OpenPlan>& first, const Topology& topology,
           const Calibration* calibration)
      : first_(first),
        costs_(topology, calibration, first->plan.runtime),
        full_(*first->graph, costs_, first->plan.options),
        changing_(full_) {}

  [[nodiscard]] bool takes(const OpenPlan& open) const {
    const Plan &mine = first_->plan, &other = open.plan;
    return mine.model_fingerprint == other.model_fingerprint && mine.options == other.options &&
           mine.runtime == other.runtime;
  }

  std::optional<Evaluation> score(const std::shared_ptr<const OpenPlan>& open, Nanoseconds below) {
    try {
      const std::optional<Evaluation> cost = score_change(open, below);
      return cost && cost->time < below ? cost : std::nullopt;
    } catch (...) {
      current_ = proposed_ = nullptr;  // the next plan is scored from scratch
      throw;
    }
  }

  std::vector<DeviceMemory> peaks(const OpenPlan& open) {
    return full_.evaluate(open.plan.strategy, {.peaks = true}).peaks;
  }

 private:
  using Changed = std::vector<std::size_t>;  // operators

  static Changed between(const OpenPlan& before, const OpenPlan& after) {
    Changed changed;
    const Strategy &a = before.plan.strategy, &b = after.plan.strategy;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) changed.push_back(i);
    }
    return changed;
  }

  // Goes on from the current plan or from the one proposed last, whichever has fewer other configs.
  Changed decide(const OpenPlan& next) {
    Changed changed = between(*current_, next);
    if (!proposed_) return changed;
    Changed from_proposed = between(*proposed_, next);
    const std::shared_ptr<const OpenPlan> proposed = std::exchange(proposed_, nullptr);
    if (from_proposed.size() >= changed.size()) {
      changing_.reject();
      return changed;
    }
    changing_.accept();
    current_ = proposed;
    cost_ = proposed_cost_;
    return from_proposed;
  }

  Evaluation start(const std::shared_ptr<const OpenPlan>& open) {
    cost_ = changing_.start(full_.contents().bind(open->plan.strategy));
    current_ = open;
    return cost_;
  }

  std::optional<Evaluation> score_change(const std::shared_ptr<const OpenPlan>& open, Nanoseconds below) {
    constexpr std::size_t kBetweenLooks = 256, kMostChanged = 2;  // half of the operators
    if (!current_) return start(open);
    const Changed changed = decide(*open);
    if (changed.empty()) return cost_;
    if (++scored_ % kBetweenLooks == 0) forget();
    if (kMostChanged * changed.size() > open->plan.strategy.size()) return start(open);
    std::vector<BoundChange> changes;
    for (const std::size_t i : changed)
      changes.push_back({OperatorId(i), full_.contents().bind(OperatorId(i), open->plan.strategy[i])});
    constexpr Nanoseconds kMostTime = std::numeric_limits<Nanoseconds>::max() / 2;
    const std::optional<Evaluation> cost = changing_.propose(changes, std::min(below, kMostTime));
    if (!cost) return std::nullopt;  // the current plan stays the one to go on from
    proposed_cost_ = *cost;
    proposed_ = open;
    return cost;
  }

  void forget() {
    constexpr Bytes kMost{250'000'000};
    full_.forget(kMost);
    if (changing_.is_outdated()) changing_.refresh(full_.contents().bind(current_->plan.strategy));
  }

  std::shared_ptr<const OpenPlan> first_;
  CostModel costs_;
  Evaluator full_;
  IncrementalEvaluator changing_;
  std::shared_ptr<const OpenPlan> current_, proposed_;  // null: none
  Evaluation cost_, proposed_cost_;
  std::size_t scored_ = 0;
};

PlanScorer::PlanScorer(const Topology& topology, const Calibration* calibration)
    : topology_(topology), calibration_(calibration) {}
PlanScorer::~PlanScorer() = default;

PlanScorer::Sequence& PlanScorer::sequence_of(const std::shared_ptr<const OpenPlan>& plan) {
  constexpr std::size_t kMost = 4;
  auto found = std::ranges::find_if(sequences_, [&](const auto& s) { return s->takes(*plan); });
  if (found == sequences_.end()) {
    if (sequences_.size() == kMost) sequences_.pop_back();
    found = sequences_.insert(sequences_.end(), std::make_unique<Sequence>(plan, topology_, calibration_));
  }
  std::rotate(sequences_.begin(), found, found + 1);
  return *sequences_.front();
}

std::optional<Evaluation> PlanScorer::score(const std::shared_ptr<const OpenPlan>& plan, Nanoseconds below) {
  return sequence_of(plan).score(plan, below);
}

std::vector<DeviceMemory> PlanScorer::peaks(const std::shared_ptr<const OpenPlan>& plan) {
  return sequence_of(plan).peaks(*plan);
}

}  // namespace pipesim
