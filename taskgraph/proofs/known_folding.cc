#include "taskgraph/proofs/known_folding.h"

#include <utility>

#include "taskgraph/proofs/find_folding.h"

namespace pipesim {

std::shared_ptr<const Folding> KnownFolding::of(const PlanContents& contents, const BoundStrategy& strategy) {
  const auto find = [&]() -> std::shared_ptr<Folding> {
    std::optional<Folding> found = find_folding(contents, strategy);
    return found ? std::make_shared<Folding>(std::move(*found)) : nullptr;
  };
  const std::optional<Pipeline>& pipeline = contents.options().pipeline;
  if (contents.versions().several() || (pipeline && !pipeline->replicas.empty())) {
    subject_.reset();
    return folding_ = find();
  }
  Subject now{contents.generation(), contents.versions().trained(), contents.ways(), strategy,
              pipeline ? pipeline->stage_of : std::vector<std::int32_t>()};
  if (subject_ == now) return folding_;
  subject_.reset();  // until the search has come to its end
  folding_ = find();
  subject_ = std::move(now);
  return folding_;
}

bool KnownFolding::reprice(const Folding* folding, const PlanContents& contents) {
  if (folding != nullptr && folding == folding_.get() && pipesim::reprice(*folding_, contents)) return true;
  subject_.reset();
  return false;
}

}  // namespace pipesim
