#include "taskgraph/expansion/folding.h"

#include <algorithm>

namespace pipesim {

std::vector<std::int32_t> Folding::same_tasks(const CommunicationPlan& folded, const Folding& other) const {
  std::vector<std::int32_t> same(folded.tasks.size(), -1);
  const CommunicationPlan& whole = *whole_.at(&folded);
  const std::span<const std::int32_t> here = tasks_of(whole), there = other.tasks_of(whole);
  for (std::size_t i = 0; i < here.size(); ++i) same[static_cast<std::size_t>(here[i])] = there[i];
  return same;
}

}  // namespace pipesim
