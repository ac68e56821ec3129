#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search/auto/auto_checkpoint.h"
#include "search/joint/joint_plan.h"

namespace pipesim {

/// What each of several algorithms did, and the best plan of each.
class Contributions {
 public:
  struct Plan {
    std::string name;  ///< of the algorithm
    ScoredJointPlan plan;
  };

  /// Parts of one search have the same name and are told as one: its best plan, the note of the last part,
  /// the time of all.
  void add(AutoEntry made);

  [[nodiscard]] const std::vector<Contribution>& all() const { return all_; }
  /// In the order in which the algorithms were added first.
  [[nodiscard]] std::span<const Plan> plans() const { return plans_; }
  /// What fits first, then the fastest, then who came first; nullptr without any.
  [[nodiscard]] const ScoredJointPlan* best() const;
  /// How much the best plan of an algorithm lacks of memory, in bytes, and its time in nanoseconds; the most
  /// bytes there are where it has none.
  [[nodiscard]] std::pair<Bytes, Nanoseconds> best_of(std::string_view name) const;

 private:
  void add_plan(const std::string& name, ScoredJointPlan plan);

  std::vector<Contribution> all_;
  std::vector<Plan> plans_;
};

/// As a table shows them: an algorithm that had no time in several numbers of microbatches, beside the number
/// that was asked for, is one row.
std::vector<Contribution> without_late_repeats(std::span<const Contribution> all);

}  // namespace pipesim
