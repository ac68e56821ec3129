#include "search/config_space.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"

namespace pipesim {

ConfigSpace::ConfigSpace(const CandidateSet& candidates, const std::vector<Strategy>& starts)
    : candidates_(candidates), extra_(candidates.graph().operators().size()) {
  for (const Strategy& start : starts) {
    for (std::size_t i = 0; i < extra_.size(); ++i) {
      std::vector<ParallelConfig>& extra = extra_[i];
      if (candidates.find(OperatorId(i), start[i])) continue;
      if (std::find(extra.begin(), extra.end(), start[i]) == extra.end()) extra.push_back(start[i]);
    }
  }
}

ParallelConfig ConfigSpace::config(OperatorId op, std::size_t i) const {
  const std::size_t common = candidates_.size(op);
  return i < common ? candidates_.config(op, i) : extra_[op.index()][i - common];
}

std::size_t ConfigSpace::index(OperatorId op, const ParallelConfig& config) const {
  if (const auto i = candidates_.find(op, config)) return *i;
  const std::vector<ParallelConfig>& extra = extra_[op.index()];
  const auto it = std::find(extra.begin(), extra.end(), config);
  if (it == extra.end())
    throw InternalError(fmt::format("operator {} has a config outside the search space", op.value));
  return candidates_.size(op) + static_cast<std::size_t>(it - extra.begin());
}

std::vector<std::size_t> ConfigSpace::indices(const Strategy& strategy) const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < strategy.size(); ++i) result.push_back(index(OperatorId(i), strategy[i]));
  return result;
}

Strategy ConfigSpace::strategy(const std::vector<std::size_t>& indices) const {
  Strategy result;
  for (std::size_t i = 0; i < indices.size(); ++i) result.push_back(config(OperatorId(i), indices[i]));
  return result;
}

}  // namespace pipesim
