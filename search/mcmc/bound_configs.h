#pragma once

#include <tbb/spin_mutex.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "search/config_space.h"
#include "search/evaluator.h"

namespace pipesim {

/// The configs of a space as an evaluator binds them, by number. Any number of threads may use them.
class BoundConfigs {
 public:
  BoundConfigs(const ConfigSpace& space, Evaluator& evaluator);

  /// Valid until the evaluator forgets, see PlanContents::forget().
  const BoundOperator* bind(OperatorId op, std::size_t i);
  BoundStrategy bind(const std::vector<std::size_t>& configs);

  [[nodiscard]] const ConfigSpace& space() const { return space_; }
  [[nodiscard]] Evaluator& evaluator() { return evaluator_; }

 private:
  const ConfigSpace& space_;
  Evaluator& evaluator_;
  void clear();

  std::vector<std::unique_ptr<std::atomic<const BoundOperator*>[]>> bound_;  // per operator and config;
                                                                             // nullptr: not yet
  std::atomic<std::uint64_t> generation_;
  tbb::spin_mutex mutex_;  // held to change it
};

}  // namespace pipesim
