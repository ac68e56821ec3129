#pragma once

#include <tbb/spin_mutex.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "taskgraph/binding/bound_operator.h"

namespace pipesim {

/// Operators under their configs, each bound once. Alike operators share the result. Any number of threads
/// may use it; a thread waits for another only while it looks something up. Call clear() only while no thread
/// uses it.
class BoundOperators {
 public:
  BoundOperators(const OperatorGraph& graph, LayoutTable& layouts, CommunicationPricesByThread& prices,
                 const ExpertLoads& loads);

  /// The config must be legal (see illegal()). Valid until clear().
  const BoundOperator* bind(OperatorId op, const ParallelConfig& config);
  /// Prices all of them anew, where they stand; `compute`: not only what they communicate. False where one
  /// would hold other lanes; they are of no use then. No other thread may use this meanwhile.
  [[nodiscard]] bool reprice(bool compute);
  [[nodiscard]] Bytes bytes() const;
  void clear();

 private:
  struct ConfigHash {
    std::size_t operator()(const ParallelConfig& config) const noexcept;
  };
  using ByConfig = std::unordered_map<ParallelConfig, std::unique_ptr<BoundOperator>, ConfigHash>;

  std::unique_ptr<BoundOperator> make(OperatorId op, const ParallelConfig& config);

  const OperatorGraph& graph_;
  LayoutTable& layouts_;
  CommunicationPricesByThread& prices_;
  const ExpertLoads& loads_;
  std::vector<OperatorId> first_alike_;  // per operator
  mutable tbb::spin_mutex mutex_;        // for what follows
  std::vector<ByConfig> bound_;          // per operator
  Bytes bytes_;
};

}  // namespace pipesim
