#include "taskgraph/binding/bound_operators.h"

#include <utility>

#include "taskgraph/binding/alike_operators.h"

namespace pipesim {
namespace {

using Lock = tbb::spin_mutex::scoped_lock;

std::size_t mixed(std::size_t h, std::int64_t value) {
  h = (h ^ static_cast<std::size_t>(value)) * 0xFF51AFD7ED558CCDULL;
  return h ^ (h >> 32);
}

}  // namespace

std::size_t BoundOperators::hash_of(const ParallelConfig& config) {
  std::size_t h = mixed(static_cast<std::size_t>(config.replicas), config.ring ? 1 : 0);
  for (const std::int32_t d : config.degrees) h = mixed(h, d);
  for (const DeviceId d : config.devices) h = mixed(h, d.value);
  return h;
}

BoundOperators::BoundOperators(const OperatorGraph& graph, LayoutTable& layouts,
                               CommunicationPricesByThread& prices, const ExpertLoads& loads, DataType sums)
    : graph_(graph),
      layouts_(layouts),
      prices_(prices),
      loads_(loads),
      sums_(sums),
      first_alike_(first_alike(graph)),
      bound_(graph.operators().size()) {
  for (std::size_t i = 0; i < first_alike_.size(); ++i) {
    const OperatorId op(i);
    if (loads_.factors(first_alike_[i]) != loads_.factors(op)) first_alike_[i] = op;
  }
}

// Another thread may have bound the same meanwhile: one of equal results is enough.
const BoundOperator* BoundOperators::bind(OperatorId op, const ParallelConfig& config) {
  ByConfig& bound = bound_[op.index()];
  {
    const Lock lock(mutex_);
    const auto found = bound.find(config);
    if (found != bound.end()) return found->get();
  }
  std::unique_ptr<BoundOperator> made = make(op, config);
  const Lock lock(mutex_);
  const auto [at, is_new] = bound.insert(std::move(made));
  if (is_new) bytes_ += (*at)->bytes();
  return at->get();
}

std::unique_ptr<BoundOperator> BoundOperators::make(OperatorId op, const ParallelConfig& config) {
  const OperatorId first = first_alike_[op.index()];
  if (first == op)
    return std::make_unique<BoundOperator>(
        pipesim::bind(graph_, op, config, prices_.local(), layouts_, loads_, sums_));
  const BoundOperator* there = bind(first, config);
  auto alike = std::make_unique<BoundOperator>(*there);
  alike->op = &graph_.op(op);
  alike->first_alike = there;
  return alike;
}

// The first of operators that are alike comes first, so that the others find its new times.
bool BoundOperators::reprice(bool compute) {
  const auto communicates = [](const PassWork& work) { return !work.exchanges.empty(); };
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    for (const Bound& bound : bound_[i]) {
      if (!compute && !communicates(bound->forward) && !communicates(bound->backward_input) &&
          !communicates(bound->backward_weight))
        continue;
      const bool priced = bound->first_alike ? take_times(*bound, *bound->first_alike)
                                             : pipesim::reprice(*bound, graph_, OperatorId(i),
                                                                prices_.local(), loads_, sums_);
      if (!priced) return false;
    }
  }
  return true;
}

Bytes BoundOperators::bytes() const {
  const Lock lock(mutex_);
  return bytes_;
}

void BoundOperators::clear() {
  const Lock lock(mutex_);
  for (ByConfig& configs : bound_) configs.clear();
  bytes_ = Bytes(0);
}

}  // namespace pipesim
