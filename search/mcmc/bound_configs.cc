#include "search/mcmc/bound_configs.h"

namespace pipesim {

BoundConfigs::BoundConfigs(const ConfigSpace& space, Evaluator& evaluator)
    : space_(space), evaluator_(evaluator), generation_(evaluator.contents().generation()) {
  for (std::size_t i = 0; i < space.num_operators(); ++i)
    bound_.push_back(std::make_unique<std::atomic<Page*>[]>(space.size(OperatorId(i)) / kPage + 1));
}

const BoundOperator* BoundConfigs::bind(OperatorId op, std::size_t i) {
  if (generation_ != evaluator_.contents().generation()) clear();
  std::atomic<const BoundOperator*>& bound = page_of(op, i)[i % kPage];
  if (!bound) bound = evaluator_.contents().bind(op, space_.config(op, i));
  return bound;
}

BoundConfigs::Page& BoundConfigs::page_of(OperatorId op, std::size_t config) {
  std::atomic<Page*>& slot = bound_[op.index()][config / kPage];
  if (Page* page = slot) return *page;
  const tbb::spin_mutex::scoped_lock lock(mutex_);
  if (slot == nullptr) slot = pages_.emplace_back(std::make_unique<Page>()).get();
  return *slot;
}

// Threads that get here wait for each other; the first one clears, and the others find nothing left to do.
void BoundConfigs::clear() {
  const tbb::spin_mutex::scoped_lock lock(mutex_);
  const std::uint64_t now = evaluator_.contents().generation();
  if (generation_ == now) return;
  for (const std::unique_ptr<Page>& page : pages_) {
    for (std::atomic<const BoundOperator*>& bound : *page) bound = nullptr;
  }
  generation_ = now;
}

BoundStrategy BoundConfigs::bind(const std::vector<std::size_t>& configs) {
  BoundStrategy strategy;
  for (std::size_t i = 0; i < configs.size(); ++i) strategy.push_back(bind(OperatorId(i), configs[i]));
  return strategy;
}

}  // namespace pipesim
