#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "taskgraph/binding/plan_contents.h"
#include "taskgraph/expansion/folding.h"

namespace pipesim {

/// Keeps the folding that was found last, for plans that differ in what it does not depend on: the schedule,
/// the number of microbatches, recompute. All plans must be of one PlanContents, or share its kept results.
class KnownFolding {
 public:
  /// The result of find_folding(), or nullptr. It stays as it is while it is kept, but for reprice().
  std::shared_ptr<const Folding> of(const PlanContents& contents, const BoundStrategy& strategy);

  /// Reprices `folding`, see find_folding.h, if that is what of() returned last. Otherwise, or where its
  /// devices are no longer alike, forgets what of() returned, and then returns false.
  bool reprice(const Folding* folding, const PlanContents& contents);

 private:
  /// All that find_folding() reads and that may differ between two plans. Where no stage has replicas,
  /// the groups of devices follow from their stages.
  struct Subject {
    std::uint64_t generation = 0;
    bool trained = true;
    std::int32_t ways = 1;
    BoundStrategy strategy;
    std::vector<std::int32_t> stage_of;  // by operator; empty: no pipeline
    bool operator==(const Subject&) const = default;
  };
  std::optional<Subject> subject_;
  std::shared_ptr<Folding> folding_;
};

}  // namespace pipesim
