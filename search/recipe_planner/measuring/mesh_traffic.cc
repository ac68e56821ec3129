#include "search/recipe_planner/measuring/mesh_traffic.h"

#include <algorithm>

namespace pipesim {
namespace {

void lower_one(PartTraffic& traffic, const PartTraffic& other) {
  traffic = {std::min(traffic.each, other.each), std::min(traffic.once, other.once),
             std::min(traffic.at_end, other.at_end)};
}

// Calls visit(lane, traffic) with what a part adds to a lane's traffic under a sharding.
template <class Visit>
void for_each_share(const HeldLanes& transfers, const HeldByWeights& weights, const StateSharding& sharding,
                    Visit visit) {
  for (const auto& [lane, held] : transfers) visit(lane, PartTraffic{held, 0, 0});
  for (const auto& [lane, held] : weights.whole) visit(lane, PartTraffic{0, held, held});
  const bool summed = !weights.summed.empty() && sharding.kind == StateSharding::Kind::Optimizer,
             broadcast = !weights.broadcast.empty() && !sharding.gathers_to_use();
  for (const auto& [lane, held] : summed ? weights.summed : weights.divided)
    visit(lane, sharding.each_microbatch() ? PartTraffic{held, 0, held} : PartTraffic{0, held, held});
  for (const auto& [lane, held] : broadcast ? weights.broadcast : weights.gather) {
    if (sharding.gathers_to_use()) {
      visit(lane, PartTraffic{(sharding.keep_gathered ? 1 : 2) * held, 0, 0});
    } else {
      visit(lane, PartTraffic{0, held, sharding.gathers_before_use() ? 0 : held});
    }
  }
}

void add(PartTraffic& traffic, const PartTraffic& other, std::int64_t times = 1) {
  traffic = {traffic.each + times * other.each, traffic.once + times * other.once,
             traffic.at_end + times * other.at_end};
}

}  // namespace

void lower(MeshTraffic& traffic, const MeshTraffic& other) {
  lower_one(traffic.front, other.front);
  lower_one(traffic.behind, other.behind);
  for (std::size_t c = 0; c < traffic.of_class.size(); ++c) lower_one(traffic.of_class[c], other.of_class[c]);
}

MeshTraffic on_busiest_lanes(const HeldByParts& transfers, const HeldByPartsWeights& weights,
                             const StateSharding& sharding, const ModelParts& parts,
                             std::int64_t microbatches) {
  std::vector<std::int64_t> layers(parts.representative.size(), 0);  // by class
  for (const std::size_t number : parts.class_of) ++layers[number];
  std::vector<PartTraffic> all;  // by lane: of all layers
  for (std::size_t c = 0; c < layers.size(); ++c) {
    for_each_share(transfers[2 + c], weights[2 + c], sharding,
                   [&](std::size_t lane, const PartTraffic& share) {
                     if (all.size() <= lane) all.resize(lane + 1);
                     add(all[lane], share, layers[c]);
                   });
  }
  // Of two the first one.
  const auto busiest = [&](auto held) {
    const auto lane = std::ranges::max_element(all, {}, held);
    return static_cast<std::size_t>(lane - all.begin());
  };
  const std::size_t in_all =
      busiest([&](const PartTraffic& on_lane) { return microbatches * on_lane.each + on_lane.once; });
  const std::size_t at_end = busiest([](const PartTraffic& on_lane) { return on_lane.at_end; });
  const auto on_lanes = [&](std::size_t part) {
    PartTraffic sum;
    for_each_share(transfers[part], weights[part], sharding, [&](std::size_t lane, const PartTraffic& share) {
      if (lane == in_all) add(sum, {share.each, share.once, 0});
      if (lane == at_end) add(sum, {0, 0, share.at_end});
    });
    return sum;
  };
  MeshTraffic made{on_lanes(0), on_lanes(1), {}, {}};
  for (std::size_t c = 0; c < layers.size(); ++c) made.of_class.push_back(on_lanes(2 + c));
  return made;
}

}  // namespace pipesim
