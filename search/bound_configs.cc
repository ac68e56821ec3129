#include "search/bound_configs.h"

namespace pipesim {

BoundConfigs::BoundConfigs(const ConfigSpace& space, Evaluator& evaluator)
    : space_(space), evaluator_(evaluator), bound_(space.num_operators()) {}

const BoundOperator* BoundConfigs::bind(OperatorId op, std::size_t i) {
  const tbb::spin_mutex::scoped_lock lock(evaluator_.mutex());
  TaskGraphBuilder& builder = evaluator_.builder();
  if (generation_ != builder.generation()) {
    for (std::vector<const BoundOperator*>& configs : bound_) configs.clear();
    generation_ = builder.generation();
  }
  std::vector<const BoundOperator*>& configs = bound_[op.index()];
  if (configs.empty()) configs.resize(space_.size(op), nullptr);
  if (!configs[i]) configs[i] = builder.bind(op, space_.config(op, i));
  return configs[i];
}

BoundStrategy BoundConfigs::bind(const std::vector<std::size_t>& configs) {
  BoundStrategy strategy;
  for (std::size_t i = 0; i < configs.size(); ++i) strategy.push_back(bind(OperatorId(i), configs[i]));
  return strategy;
}

}  // namespace pipesim
