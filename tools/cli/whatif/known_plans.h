#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search/evaluator.h"
#include "tools/analysis/inputs/subject.h"
#include "tools/cli/base/arguments.h"

namespace pipesim {

/// A plan and its evaluators. Each evaluator has scored the plan with the prices of some point, and scores it
/// with those of another point in a fraction of the time (Evaluator::with()). Several threads may ask
/// at the same time.
class KnownPlan {
 public:
  KnownPlan(Subject s, std::string k) : subject(std::move(s)), kind(std::move(k)) {}

  struct Prices {
    Prices(Topology t, const Subject& s);
    Topology topology;
    CostModel costs;
  };
  struct Priced {
    std::unique_ptr<Prices> prices;  // of the evaluator
    std::optional<Evaluator> evaluator;
  };
  /// The cost and peaks at a point, and an evaluator for this caller.
  std::pair<Evaluated, Priced> score(const Arguments& point);
  /// Takes back what score() gave.
  void use_again(Priced priced);

  const Subject subject;
  const std::string kind;  ///< see kind_of_plan()

 private:
  Priced one_of_before();
  std::mutex mutex_;
  std::vector<Priced> before_;
};

/// Plans that several points share, as these points differ in rates of the topology alone. Several threads
/// may ask at the same time.
class KnownPlans {
 public:
  /// InputError where the point has no plan.
  std::shared_ptr<KnownPlan> of(const Arguments& point);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<KnownPlan>> known_;
};

}  // namespace pipesim
