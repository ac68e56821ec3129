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

/// The results of several algorithms, and the best plan of each.
class Contributions {
 public:
  struct Plan {
    std::string name;  ///< of the algorithm
    Scored<JointPlan> plan;
  };

  /// Parts of one search have the same name and become one entry: its best plan, the note of the last part,
  /// and the time of all parts.
  void add(AutoEntry made);

  [[nodiscard]] const std::vector<Contribution>& all() const { return all_; }
  /// In the order in which the algorithms were added first.
  [[nodiscard]] std::span<const Plan> plans() const { return plans_; }
  /// The best plan; nullptr when there is none. A plan that fits is better than one that does not; then the
  /// faster one; then the one that was added first.
  [[nodiscard]] const Scored<JointPlan>* best() const;
  /// For the best plan of an algorithm: the bytes of memory that it lacks, and its time in nanoseconds.
  /// Without a plan the bytes are the largest possible number.
  [[nodiscard]] std::pair<Bytes, Nanoseconds> best_of(std::string_view name) const;

 private:
  void add_plan(const std::string& name, Scored<JointPlan> plan);

  std::vector<Contribution> all_;
  std::vector<Plan> plans_;
};

/// The rows of a table. An algorithm that ran out of time in several other numbers of microbatches than the
/// requested one gets one row for all of them.
std::vector<Contribution> without_late_repeats(std::span<const Contribution> all);

}  // namespace pipesim
