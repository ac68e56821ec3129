#include "search/recipe_planner/measuring/mesh_traffic.h"

#include <algorithm>

#include "taskgraph/binding/plan_contents.h"

namespace pipesim {
namespace {

void lower_one(PartTraffic& traffic, const PartTraffic& other) {
  traffic = {std::min(traffic.each, other.each), std::min(traffic.once, other.once),
             std::min(traffic.at_end, other.at_end), std::min(traffic.lost_each, other.lost_each),
             std::min(traffic.lost_once, other.lost_once)};
}

// Whether each copy gets the whole sum of gradients whose state is divided.
bool sums_whole(const HeldByWeights& weights, const StateSharding& sharding) {
  return !weights.summed.empty() && sharding.kind == StateSharding::Kind::Optimizer;
}

// Calls visit(lane, traffic) with what a part adds to a lane's traffic under a sharding. A microbatch gathers
// a weight `gathers` times.
template <class Visit>
void for_each_share(const HeldLanes& transfers, const HeldByWeights& weights, const StateSharding& sharding,
                    int gathers, Visit visit) {
  for (const auto& [lane, held] : transfers) visit(lane, PartTraffic{.each = held});
  for (const auto& [lane, held] : weights.whole) visit(lane, PartTraffic{.once = held, .at_end = held});
  if (sharding.gathers_to_use()) {
    for (const auto& [lane, held] : weights.frozen) visit(lane, PartTraffic{.each = gathers * held});
    for (const auto& [lane, held] : weights.frozen_once) visit(lane, PartTraffic{.each = held});
  }
  const bool broadcast = !weights.broadcast.empty() && !sharding.gathers_to_use();
  for (const auto& [lane, held] : sums_whole(weights, sharding) ? weights.summed : weights.divided)
    visit(lane, sharding.each_microbatch() ? PartTraffic{.each = held, .at_end = held}
                                           : PartTraffic{.once = held, .at_end = held});
  for (const auto& [lane, held] : broadcast ? weights.broadcast : weights.gather) {
    if (sharding.gathers_to_use()) {
      visit(lane, PartTraffic{.each = gathers * held});
    } else {
      visit(lane, PartTraffic{.once = held, .at_end = sharding.gathers_before_use() ? 0 : held});
    }
  }
}

// Without what holds lanes.
PartTraffic lost_to(const HeldByWeights& weights, const StateSharding& sharding, int gathers,
                    bool beside_backward) {
  const HeldByWeights::Lost& lost = weights.lost;
  PartTraffic made;
  made.lost_each += gathers * lost.gather;
  if (sharding.each_microbatch()) made.lost_each += lost.divided;
  if (!beside_backward) return made;
  made.lost_once += lost.whole;
  if (!sharding.each_microbatch())
    made.lost_once += sums_whole(weights, sharding) ? lost.summed : lost.divided;
  return made;
}

void add(PartTraffic& traffic, const PartTraffic& other, std::int64_t times = 1) {
  traffic = {traffic.each + times * other.each, traffic.once + times * other.once,
             traffic.at_end + times * other.at_end, traffic.lost_each + times * other.lost_each,
             traffic.lost_once + times * other.lost_once};
}

}  // namespace

std::vector<std::vector<std::int64_t>> StageGroups::distinct_of_class() const {
  if (class_of.empty()) return {distinct};
  std::vector<std::vector<std::int64_t>> of_class(1 + std::ranges::max(class_of));
  for (const std::int64_t group : distinct)
    of_class[class_of[static_cast<std::size_t>(group)]].push_back(group);
  return of_class;
}

void lower(MeshTraffic& traffic, const MeshTraffic& other) {
  lower_one(traffic.front, other.front);
  lower_one(traffic.behind, other.behind);
  for (std::size_t c = 0; c < traffic.of_class.size(); ++c) lower_one(traffic.of_class[c], other.of_class[c]);
}

bool reduces_beside_backward(const Recipe& recipe, const Runtime& runtime) {
  const StateSharding& sharding = recipe.state_sharding;
  if (sharding.each_microbatch()) return true;
  if (recipe.pipeline > 1) return recipe.gradient_reduction() == GradientReduction::Overlapped;
  return runtime.overlap == ReductionOverlap::Always ||
         (runtime.overlap == ReductionOverlap::UnlessSharded && !sharding.any());
}

int least_gathers(const Recipe& recipe, const Runtime& runtime) {
  const StateSharding& sharding = recipe.state_sharding;
  return reuses_gathered(runtime, sharding, recipe.pipeline > 1) ? 1 : sharding.gathers_each_microbatch();
}

MeshTraffic on_busiest_lanes(const HeldByParts& transfers, const HeldByPartsWeights& weights,
                             const StateSharding& sharding, const ModelParts& parts,
                             std::int64_t microbatches, int gathers, bool beside_backward) {
  std::vector<std::int64_t> layers(parts.representative.size(), 0);  // by class
  for (const std::size_t number : parts.class_of) ++layers[number];
  std::vector<PartTraffic> all;  // by lane: of all layers
  for (std::size_t c = 0; c < layers.size(); ++c) {
    for_each_share(transfers[2 + c], weights[2 + c], sharding, gathers,
                   [&](std::size_t lane, const PartTraffic& share) {
                     if (all.size() <= lane) all.resize(lane + 1);
                     add(all[lane], share, layers[c]);
                   });
  }
  // Returns the lane for which the figure is largest, the first of equal ones.
  const auto busiest = [&](auto held) {
    const auto lane = std::ranges::max_element(all, {}, held);
    return static_cast<std::size_t>(lane - all.begin());
  };
  const std::size_t in_all =
      busiest([&](const PartTraffic& on_lane) { return microbatches * on_lane.each + on_lane.once; });
  const std::size_t at_end = busiest([](const PartTraffic& on_lane) { return on_lane.at_end; });
  const auto on_lanes = [&](std::size_t part) {
    PartTraffic sum = lost_to(weights[part], sharding, gathers, beside_backward);
    for_each_share(transfers[part], weights[part], sharding, gathers,
                   [&](std::size_t lane, const PartTraffic& share) {
                     if (lane == in_all) add(sum, {.each = share.each, .once = share.once});
                     if (lane == at_end) add(sum, {.at_end = share.at_end});
                   });
    return sum;
  };
  MeshTraffic made{on_lanes(0), on_lanes(1), {}, {}};
  for (std::size_t c = 0; c < layers.size(); ++c) made.of_class.push_back(on_lanes(2 + c));
  return made;
}

}  // namespace pipesim
