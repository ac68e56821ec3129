// Single-axis changes on device meshes: one axis of the mesh changes what it does to the tensor, the others
// stay.
#include "taskgraph/moving/redistribution_candidates.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_layouts.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr int kCopy = -1, kSum = -2;  // else: the dimension that the axis cuts

struct Mesh {
  std::vector<std::int64_t> axes;
  std::vector<DeviceId> devices;
  std::vector<std::int64_t> shape{24, 24};

  [[nodiscard]] Layout layout(const std::vector<int>& roles) const {
    std::vector<Layout::Piece> pieces;
    for (std::size_t k = 0; k < devices.size(); ++k) pieces.push_back(piece(k, roles));
    return Layout(pieces);
  }

 private:
  [[nodiscard]] Layout::Piece piece(std::size_t k, const std::vector<int>& roles) const {
    std::vector<std::int64_t> position(shape.size(), 0), degree(shape.size(), 1);
    std::int32_t addend = 0;
    std::size_t rest = devices.size(), at = k;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      rest /= static_cast<std::size_t>(axes[a]);
      const auto c = static_cast<std::int64_t>(at / rest);
      at %= rest;
      if (roles[a] == kSum)
        addend = addend * static_cast<std::int32_t>(axes[a]) + static_cast<std::int32_t>(c);
      if (roles[a] < 0) continue;
      const auto d = static_cast<std::size_t>(roles[a]);
      position[d] = position[d] * axes[a] + c;
      degree[d] *= axes[a];
    }
    Box box = Box::whole(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) box[d] = part_of(shape[d], degree[d], position[d]);
    return {devices[k], box, addend};
  }
};

std::optional<Collective> named(int before, int after) {
  if (before == after || before == kCopy) return std::nullopt;  // nothing, or a slice of what is there
  if (before == kSum) return after == kCopy ? Collective::AllReduce : Collective::ReduceScatter;
  return after == kCopy ? Collective::AllGather : Collective::AllToAll;
}

std::int64_t count(const std::vector<int>& roles, int role) {
  return std::count(roles.begin(), roles.end(), role);
}

TEST(SingleAxisChange, IsTheNamedCollective) {
  const Topology topology = make_topology("levels:12@10GB/s");
  const CostModel costs(topology);
  CommunicationPrices prices(costs);
  const std::vector<std::vector<std::int64_t>> meshes{{2, 2, 2}, {3, 2}, {2, 4}, {4}, {2, 3, 2}, {8}};
  std::map<Collective, int> met;
  for_each_seed(2500, [&](Rng& rng) {
    Mesh mesh;
    mesh.axes = meshes[rng.below(meshes.size())];
    const auto total =
        std::accumulate(mesh.axes.begin(), mesh.axes.end(), std::int64_t{1}, std::multiplies<>());
    mesh.devices = random_devices(rng, 12, static_cast<std::size_t>(total));
    std::vector<int> before;
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) before.push_back(static_cast<int>(rng.below(4)) - 2);
    std::vector<int> after = before;
    after.back() = static_cast<int>(rng.below(3)) - 1;
    if (count(after, kSum) > 0) return;  // targets are complete

    const Redistribution r = redistribute(mesh.layout(before), mesh.layout(after), 1 << 20, prices);
    const std::optional<Collective> kind = named(before.back(), after.back());
    const std::int64_t n = mesh.axes.back();
    std::int64_t whole = 24 * 24, copies = 1;  // of the part of the tensor on one line of the mesh
    for (std::size_t a = 0; a + 1 < mesh.axes.size(); ++a) {
      if (before[a] >= 0) whole /= mesh.axes[a];
      if (before[a] == kCopy) copies *= mesh.axes[a];
    }
    const std::int64_t lines = total / n;
    const std::int64_t bytes = kind ? lines * bytes_on_links(*kind, n, Bytes(whole)) : 0;
    if (before.back() == kSum && copies > 1) {
      EXPECT_LE(r.elements_on_links(), bytes);  // copies may share the reduction
      return;
    }
    EXPECT_EQ(r.steps.size(), kind ? static_cast<std::size_t>(lines) : 0);
    for (const RedistributionStep& s : r.steps) {
      EXPECT_EQ(s.kind, *kind);
      EXPECT_EQ(s.group.size(), static_cast<std::size_t>(n));
      ++met[s.kind];
    }
    EXPECT_EQ(r.elements_on_links(), bytes);
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    for (const Collective kind :
         {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather, Collective::AllToAll})
      EXPECT_GT(met[kind], sanitized ? 25 : 100) << name_of(kind);
  }
}

}  // namespace
}  // namespace pipesim
