#include "taskgraph/proofs/known_folding.h"

#include <utility>

#include "taskgraph/proofs/find_folding.h"

namespace pipesim {

const std::optional<Folding>& KnownFolding::of(const PlanContents& contents, const BoundStrategy& strategy) {
  const std::optional<Pipeline>& pipeline = contents.options().pipeline;
  if (contents.versions().several() || (pipeline && !pipeline->replicas.empty())) {
    subject_.reset();
    return folding_ = find_folding(contents, strategy);
  }
  Subject now{contents.generation(), contents.versions().trained(), contents.ways(), strategy,
              pipeline ? pipeline->stage_of : std::vector<std::int32_t>()};
  if (subject_ == now) return folding_;
  subject_.reset();  // until the search has come to its end
  folding_ = find_folding(contents, strategy);
  subject_ = std::move(now);
  return folding_;
}

bool KnownFolding::reprice(const PlanContents& contents) {
  if (!folding_ || pipesim::reprice(*folding_, contents)) return true;
  subject_.reset();
  return false;
}

}  // namespace pipesim
