#pragma once

#include <tbb/spin_mutex.h>

#include <memory>
#include <unordered_set>
#include <vector>

#include "taskgraph/binding/bound_operator.h"

namespace pipesim {

/// Operators under their configs, each bound once. Alike operators share the result. Any number of threads
/// may use it; a thread waits for another only while it looks something up. Call clear() only while no thread
/// uses it.
class BoundOperators {
 public:
  BoundOperators(const OperatorGraph& graph, LayoutTable& layouts, CommunicationPricesByThread& prices,
                 const ExpertLoads& loads, DataType sums);

  /// The config must be legal (see illegal()). Valid until clear().
  const BoundOperator* bind(OperatorId op, const ParallelConfig& config);
  /// Prices all bound operators anew, in place; with `compute` also their compute, not only their
  /// communication. Returns false where one would hold other lanes; they are of no use then. No other thread
  /// may use this meanwhile.
  [[nodiscard]] bool reprice(bool compute);
  [[nodiscard]] Bytes bytes() const;
  void clear();

 private:
  using Bound = std::unique_ptr<BoundOperator>;
  static const ParallelConfig& config_of(const ParallelConfig& config) { return config; }
  static const ParallelConfig& config_of(const Bound& bound) { return bound->config; }
  static std::size_t hash_of(const ParallelConfig& config);
  struct ConfigHash {
    using is_transparent = void;
    std::size_t operator()(const auto& of) const { return hash_of(config_of(of)); }
  };
  struct SameConfig {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return config_of(a) == config_of(b); }
  };
  using ByConfig = std::unordered_set<Bound, ConfigHash, SameConfig>;

  std::unique_ptr<BoundOperator> make(OperatorId op, const ParallelConfig& config);

  const OperatorGraph& graph_;
  LayoutTable& layouts_;
  CommunicationPricesByThread& prices_;
  const ExpertLoads& loads_;
  DataType sums_;                        // in which weights' gradients accumulate
  std::vector<OperatorId> first_alike_;  // per operator
  mutable tbb::spin_mutex mutex_;        // for what follows
  std::vector<ByConfig> bound_;          // per operator
  Bytes bytes_;
};

}  // namespace pipesim
