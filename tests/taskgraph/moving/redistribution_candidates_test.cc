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
std::vector<std::string> in_words(const Redistribution& r) {
  std::vector<std::string> words;
  for (const RedistributionStep& s : r.steps) {
    const std::string word = fmt::format("{} of {}", name_of(s.kind), s.group.size());
    if (words.empty() || words.back() != word) words.push_back(word);
  }
  return words;
}

// Two axes change at once: the slower one exchanges dimension 0 for dimension 1, the faster one adds up
// addends, divides copies, or gathers what it divided. Volumes are those of the collectives one by one, on
// any devices in any order.
class TwoAxesChange : public testing::Test {
 protected:
  static constexpr std::int64_t kSlow = 4, kFast = 2, kDevices = kSlow * kFast, kWhole = 24 * 24 * 4;

  void check(const std::vector<int>& before, const std::vector<int>& after, std::vector<std::string> words,
             std::int64_t elements) {
    for_each_seed(20, [&](Rng& rng) {
      MeshLayout mesh;
      mesh.axes = {kSlow, kFast};
      mesh.shape = {24, 24, 4};
      mesh.devices = random_devices(rng, 12, static_cast<std::size_t>(kDevices));
      const Redistribution r = redistribute(mesh.layout(before), mesh.layout(after), 1 << 20, prices_);
      EXPECT_EQ(in_words(r), words);
      EXPECT_EQ(r.elements_on_links(), elements);
    });
  }

  Topology topology_ = make_topology("levels:12@10GB/s");
  CostModel costs_{topology_};
  CommunicationPrices prices_{costs_};
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

}  // namespace
}  // namespace pipesim
