#pragma once

#include <tbb/spin_mutex.h>

#include <array>
#include <atomic>
#include <cstddef>
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

  // An operator on a thousand devices has tens of thousands of configs, few of which are ever bound.
  static constexpr std::size_t kPage = 64;
  using Page = std::array<std::atomic<const BoundOperator*>, kPage>;  // nullptr: not yet
  using Pages = std::unique_ptr<std::atomic<Page*>[]>;                // nullptr: nothing of it is bound
  Page& page_of(OperatorId op, std::size_t config);

  std::vector<Pages> bound_;  // by operator: of its configs in order
  std::vector<std::unique_ptr<Page>> pages_;
  std::atomic<std::uint64_t> generation_;
  tbb::spin_mutex mutex_;  // held to change it
};

}  // namespace pipesim
