// Changes on device meshes: one axis of the mesh changes what it does to the tensor and the others stay, or
// two change at once.
#include "taskgraph/moving/redistribution_candidates.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_layouts.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr int kCopy = MeshLayout::copy, kSum = MeshLayout::sum;

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
    MeshLayout mesh;
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

// What steps are, in order: "reduce-scatter of 2, all-to-all of 4".
std::vector<std::string> in_words(std::span<const RedistributionStep> steps) {
  std::vector<std::string> words;
  for (const RedistributionStep& s : steps) {
    const std::string word = fmt::format("{} of {}", name_of(s.kind), s.group.size());
    if (words.empty() || words.back() != word) words.push_back(word);
  }
  return words;
}

// Returns the only component of two layouts whose boxes all overlap, directly or through others.
RedistributionComponent component_between(const Layout& from, const Layout& to) {
  std::map<std::pair<Box, std::int32_t>, std::vector<DeviceId>> parts;
  std::map<Box, std::vector<DeviceId>> wants;
  for (const LayoutEntry& e : from.entries()) parts[{from.box(e), e.addend}].push_back(e.device);
  for (const LayoutEntry& e : to.entries()) wants[to.box(e)].push_back(e.device);
  RedistributionComponent c;
  for (const auto& [part, devices] : parts) c.parts.push_back({part.first, part.second, devices});
  for (const auto& [box, devices] : wants) c.wants.push_back({box, devices});
  return c;
}

std::vector<std::vector<DeviceId>> any_lanes(const RedistributionComponent& c) {
  std::vector<std::vector<DeviceId>> lanes(c.parts.front().devices.size());
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (const RedistributionPart& p : c.parts) lanes[lane].push_back(p.devices[lane]);
  }
  return lanes;
}

// Two axes change at once: the slower one exchanges dimension 0 for dimension 1, the faster one adds up
// addends, divides copies, or gathers what it divided. Volumes are those of the collectives one by one, on
// any devices in any order.
class TwoAxesChange : public testing::Test {
 protected:
  static constexpr std::int64_t kSlow = 4, kFast = 2, kDevices = kSlow * kFast, kWhole = 24 * 24 * 4;

  // These are among the ways that are priced, and the one that is chosen takes no longer than any.
  void check(const std::vector<int>& before, const std::vector<int>& after,
             const std::vector<std::string>& words, std::int64_t elements) {
    for (const char* name : {"levels:12@10GB/s", "p100-4x4:3", "dgx-h100:2"}) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology);
      CommunicationPrices prices(costs);
      for_each_seed(20, [&](Rng& rng) {
        SCOPED_TRACE(name);
        MeshLayout mesh;
        mesh.axes = {kSlow, kFast};
        mesh.shape = {24, 24, 4};
        mesh.devices = random_devices(rng, 12, static_cast<std::size_t>(kDevices));
        const Layout from = mesh.layout(before), to = mesh.layout(after);
        const RedistributionComponent component = component_between(from, to);
        const std::int64_t element_bytes = std::int64_t{1} << rng.below(21);
        const Redistribution chosen = redistribute(from, to, element_bytes, prices);
        const Seconds least = time_of_steps(chosen.steps, element_bytes, prices);
        bool found = false;
        for (const auto& way :
             composed_steps(component, any_lanes(component), {element_bytes, 0, false, prices})) {
          EXPECT_LE(least, time_of_steps(way, element_bytes, prices))
              << testing::PrintToString(in_words(way));
          Redistribution moved;
          moved.steps = way;
          found = found || (in_words(way) == words && moved.elements_on_links() == elements);
        }
        EXPECT_TRUE(found);
      });
    }
  }
};

TEST_F(TwoAxesChange, ReducesThenExchanges) {
  // Every device holds a quarter as an addend; halves of it are exchanged by fours.
  check({0, kSum}, {1, 2}, {"reduce-scatter of 2", "all-to-all of 4"}, 2 * kWhole / 2 + kWhole - kWhole / 4);
}

TEST_F(TwoAxesChange, ExchangesThenGathers) {
  check({0, 2}, {1, kCopy}, {"all-to-all of 4", "all-gather of 2"}, kWhole - kWhole / 4 + kWhole);
}

TEST_F(TwoAxesChange, ReducesExchangesAndGathers) {
  check({0, kSum}, {1, kCopy}, {"reduce-scatter of 2", "all-to-all of 4", "all-gather of 2"},
        kWhole + kWhole - kWhole / 4 + kWhole);
}

TEST_F(TwoAxesChange, DividesCopiesAndExchanges) {
  check({0, kCopy}, {1, 2}, {"all-to-all of 4"}, kWhole - kWhole / 4);
}

// Sixteen devices have an expert each, of all four samples; afterwards, four neighbours have all experts of a
// sample. A gathering among them moves as much again. It pays where they are in one node, and sixteen are
// not: then the slow network carries a quarter.
TEST(ChainOfCollectives, IsTheOneOfLeastTimeNotOfFewestBytes) {
  const auto chosen = [](const char* topology_name, std::int64_t element_bytes) {
    const Topology topology = make_topology(topology_name);
    const CostModel costs(topology);
    CommunicationPrices prices(costs);
    MeshLayout mesh;
    mesh.axes = {4, 4};
    mesh.shape = {4, 16, 4};
    for (std::size_t d = 0; d < 16; ++d) mesh.devices.emplace_back(d);
    return in_words(redistribute(mesh.layout({1, 1}), mesh.layout({0, kCopy}), element_bytes, prices).steps);
  };
  EXPECT_THAT(chosen("dgx-h100:2", 1 << 20), testing::ElementsAre("all-to-all of 16", "all-gather of 4"));
  EXPECT_THAT(chosen("dgx-h100:2", 16), testing::ElementsAre("all-to-all of 16"));  // latency counts
  EXPECT_THAT(chosen("levels:16@10GB/s", 1 << 20), testing::ElementsAre("all-to-all of 16"));
}

}  // namespace
}  // namespace pipesim
