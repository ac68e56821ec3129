#include "search/mcmc/bound_configs.h"

namespace pipesim {

BoundConfigs::BoundConfigs(const ConfigSpace& space, Evaluator& evaluator)
    : space_(space), evaluator_(evaluator), generation_(evaluator.contents().generation()) {
  for (std::size_t i = 0; i < space.num_operators(); ++i)
    bound_.push_back(std::make_unique<std::atomic<const BoundOperator*>[]>(space.size(OperatorId(i))));
}

const BoundOperator* BoundConfigs::bind(OperatorId op, std::size_t i) {
  if (generation_ != evaluator_.contents().generation()) clear();
  std::atomic<const BoundOperator*>& bound = bound_[op.index()][i];
  if (!bound) bound = evaluator_.contents().bind(op, space_.config(op, i));
  return bound;
}

// Threads that get here wait for each other; the first one clears, and the others find nothing left to do.
void BoundConfigs::clear() {
  const tbb::spin_mutex::scoped_lock lock(mutex_);
  const std::uint64_t now = evaluator_.contents().generation();
  if (generation_ == now) return;
  for (std::size_t op = 0; op < bound_.size(); ++op) {
    for (std::size_t i = 0; i < space_.size(OperatorId(op)); ++i) bound_[op][i] = nullptr;
  }
  generation_ = now;
}

BoundStrategy BoundConfigs::bind(const std::vector<std::size_t>& configs) {
  BoundStrategy strategy;
  for (std::size_t i = 0; i < configs.size(); ++i) strategy.push_back(bind(OperatorId(i), configs[i]));
  return strategy;
}

}  // namespace pipesim
