#include "taskgraph/moving/redistribution.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "taskgraph/moving/redistribution_candidates.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_layouts.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::IsEmpty;

using Point = std::vector<std::int64_t>;

std::vector<Point> points_of(const Box& box) {
  std::vector<Point> points{{}};
  for (std::size_t i = 0; i < box.dims(); ++i) {
    std::vector<Point> longer;
    for (const Point& p : points) {
      for (std::int64_t x = box[i].begin; x < box[i].end; ++x) {
        longer.push_back(p);
        longer.back().push_back(x);
      }
    }
    points = std::move(longer);
  }
  return points;
}

bool contains(const Box& box, const Point& p) {
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] < box[i].begin || p[i] >= box[i].end) return false;
  }
  return true;
}

bool holds(const Layout& layout, DeviceId device, std::int32_t addend, const Point& p) {
  const auto held = layout.entries_on(device);
  return std::any_of(held.begin(), held.end(),
                     [&](const LayoutEntry& e) { return e.addend == addend && contains(layout.box(e), p); });
}

bool exists(const Layout& layout, std::int32_t addend, const Point& p) {
  const auto all = layout.entries();
  return std::any_of(all.begin(), all.end(),
                     [&](const LayoutEntry& e) { return e.addend == addend && contains(layout.box(e), p); });
}

void add_sources(const Redistribution& r, std::size_t step, std::set<DeviceId>& sources) {
  const auto from = contributors(r.steps[step].kind, r.steps[step].group);
  sources.insert(from.begin(), from.end());
  for (const std::int32_t before : r.steps[step].after)
    add_sources(r, static_cast<std::size_t>(before), sources);
}

// The device itself, and those whose data reaches it through the steps.
std::set<DeviceId> sources_of(const Redistribution& r, DeviceId device) {
  std::set<DeviceId> sources{device};
  for (std::size_t s = 0; s < r.steps.size(); ++s) {
    const auto to = receivers(r.steps[s].kind, r.steps[s].group);
    if (std::find(to.begin(), to.end(), device) != to.end()) add_sources(r, s, sources);
  }
  return sources;
}

// Elements that one member of the step's group gets.
double received(const RedistributionStep& step) {
  const auto n = static_cast<double>(step.group.size()), size = static_cast<double>(step.elements);
  switch (step.kind) {
    case Collective::AllReduce:
      return 2 * (n - 1) / n * size;
    case Collective::ReduceScatter:
    case Collective::AllGather:
      return (n - 1) / n * size;
    case Collective::AllToAll:
      return (n - 1) / n / n * size;
    default:
      return size;
  }
}

double received(const Redistribution& r, DeviceId device) {
  double sum = 0;
  for (const RedistributionStep& s : r.steps) {
    const auto to = receivers(s.kind, s.group);
    if (std::find(to.begin(), to.end(), device) != to.end()) sum += received(s);
  }
  return sum;
}

// Every wanted value can be put together from what reaches the device, and enough of it does.
void check_complete(const Layout& from, const Layout& to, const Redistribution& r) {
  std::map<DeviceId, std::int64_t> missing;
  for (const LayoutEntry& want : to.entries()) {
    const std::set<DeviceId> sources = sources_of(r, want.device);
    for (const Point& p : points_of(to.box(want))) {
      bool local = true;
      for (std::int32_t a = 0; a < from.num_addends(); ++a) {
        if (!exists(from, a, p)) continue;
        const bool reached =
            std::any_of(sources.begin(), sources.end(), [&](DeviceId s) { return holds(from, s, a, p); });
        EXPECT_TRUE(reached) << "addend " << a << " never reaches device " << want.device.value;
        local = local && holds(from, want.device, a, p);
      }
      missing[want.device] += local ? 0 : 1;
    }
  }
  for (const auto& [device, elements] : missing)
    EXPECT_GE(received(r, device) + 1e-9, static_cast<double>(elements)) << "device " << device.value;
}

void check_order(const Redistribution& r) {
  for (std::size_t s = 0; s < r.steps.size(); ++s) {
    for (const std::int32_t before : r.steps[s].after) EXPECT_LT(before, static_cast<std::int32_t>(s));
    const std::set<DeviceId> distinct(r.steps[s].group.begin(), r.steps[s].group.end());
    EXPECT_EQ(distinct.size(), r.steps[s].group.size());
    EXPECT_GE(distinct.size(), 2U);
    EXPECT_GT(r.steps[s].elements, 0);
  }
}

// Direct sends of all that no destination holds, without looking at components.
Redistribution direct(const Layout& from, const Layout& to, std::int64_t element,
                      CommunicationPrices& prices) {
  RedistributionComponent all;
  std::map<std::pair<Box, std::int32_t>, std::vector<DeviceId>> parts;
  for (const LayoutEntry& e : from.entries()) parts[{from.box(e), e.addend}].push_back(e.device);
  for (const auto& [key, devices] : parts) all.parts.push_back({key.first, key.second, devices});
  for (const Box& b : to.boxes()) all.wants.push_back({b, {}});
  for (const LayoutEntry& e : to.entries())
    all.wants[static_cast<std::size_t>(e.box)].devices.push_back(e.device);
  Redistribution r;
  r.steps = direct_steps(all, {element, 0, false, prices});
  return r;
}

bool whole_collective(const Redistribution& r) {
  return std::all_of(r.steps.begin(), r.steps.end(), [](const RedistributionStep& s) {
    return s.round == 0 && s.kind != Collective::Send && s.kind != Collective::Broadcast &&
           s.kind != Collective::Reduce;
  });
}

struct RandomPair {
  std::vector<Layout::Piece> from, to;
};

RandomPair random_pair(Rng& rng, std::size_t devices) {
  const std::vector<std::int64_t> shape = random_shape(rng);
  GridLayout from = random_grid(rng, shape, devices, true), to = random_grid(rng, shape, devices, false);
  if (from.devices.size() == to.devices.size() && rng.below(2) == 0) {
    to.devices = from.devices;  // the same devices, as they are or in another order
    for (std::size_t i = 1; rng.below(2) == 0 && i < to.devices.size(); ++i)
      std::swap(to.devices[i], to.devices[rng.below(i + 1)]);
  }
  RandomPair pair{from.pieces(), to.pieces()};
  if (from.addends == 1 && rng.below(3) == 0) {  // a second, complete term: a residual's gradient
    const std::vector<Layout::Piece> more = random_grid(rng, shape, devices, false).pieces();
    for (Layout::Piece p : more) p.addend += 1, pair.from.push_back(p);
  }
  return pair;
}

Layout merged(std::vector<Layout::Piece> pieces) {
  const Layout layout(std::move(pieces));
  const Layout* term = &layout;
  return sum_of(std::span(&term, 1));
}

TEST(Redistribution, RandomLayoutsReachTheirTargets) {
  const Topology topologies[] = {make_topology("p100-4x4"), make_topology("levels:3@20GB/s,2@5GB/s,2@1GB/s")};
  const CostModel models[] = {CostModel(topologies[0]), CostModel(topologies[1])};
  for_each_seed(3000, [&](Rng& rng) {
    const std::size_t which = rng.below(2);
    CommunicationPrices prices(models[which]);
    const RandomPair pair = random_pair(rng, topologies[which].num_devices());
    const Layout from = merged(pair.from), to(pair.to);
    const std::int64_t element = std::int64_t{4} << 10 * rng.below(3);  // latency decides, or bandwidth
    const Redistribution r = redistribute(from, to, element, prices);
    check_order(r);
    check_complete(from, to, r);
    const bool one_component =
        std::all_of(r.steps.begin(), r.steps.end(), [](const auto& s) { return s.component == 0; });
    if (!one_component || whole_collective(r)) return;
    const Redistribution sends = direct(from, to, element, prices);
    // Compositions of collectives that move no more than sends are used without comparison.
    if (!r.has_sends() && r.elements_on_links() <= sends.elements_on_links()) return;
    EXPECT_LE(estimated_time(r, element, prices), estimated_time(sends, element, prices));
  });
}

TEST(Redistribution, RandomMeshesReachTheirTargets) {
  const Topology topologies[] = {make_topology("p100-4x4"), make_topology("levels:3@20GB/s,2@5GB/s,2@1GB/s")};
  const CostModel models[] = {CostModel(topologies[0]), CostModel(topologies[1])};
  int composed = 0;
  for_each_seed(600, [&](Rng& rng) {
    CommunicationPrices prices(models[rng.below(2)]);
    const RandomMeshChange change = random_mesh_change(rng, prices.topology().num_devices());
    const Layout before = change.mesh.layout(change.before), from = sum_of(std::vector{&before});
    const Layout to = change.mesh.layout(change.after);
    const std::int64_t element = std::int64_t{4} << 10 * rng.below(3);
    const Redistribution r = redistribute(from, to, element, prices);
    check_order(r);
    check_complete(from, to, r);
    composed += is_composed(r) ? 1 : 0;
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(composed, sanitized ? 2 : 20);
  }
}

TEST(Redistribution, IsTheSameOnRepetitionAndInAnyOrderOfEntries) {
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  CommunicationPrices shared(costs);
  for_each_seed(500, [&](Rng& rng) {
    RandomPair pair = random_pair(rng, topology.num_devices());
    const Redistribution first = redistribute(merged(pair.from), Layout(pair.to), 4, shared);
    std::reverse(pair.from.begin(), pair.from.end());
    std::reverse(pair.to.begin(), pair.to.end());
    CommunicationPrices fresh(costs);
    EXPECT_EQ(first, redistribute(merged(pair.from), Layout(pair.to), 4, fresh));
    EXPECT_EQ(first, redistribute(merged(pair.from), Layout(pair.to), 4, shared));
  });
}

TEST(Redistribution, IdentityNeedsNothing) {
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  CommunicationPrices prices(costs);
  for_each_seed(200, [&](Rng& rng) {
    const Layout layout(random_grid(rng, random_shape(rng), 16, false).pieces());
    const Redistribution r = redistribute(layout, layout, 4, prices);
    EXPECT_THAT(r.steps, IsEmpty());
    std::set<DeviceId> devices;
    for (const LayoutEntry& e : layout.entries()) devices.insert(e.device);
    EXPECT_EQ(r.local, std::vector<DeviceId>(devices.begin(), devices.end()));
  });
}

Layout one_box(const Box& box, const std::vector<std::int32_t>& devices, bool addends) {
  std::vector<Layout::Piece> pieces;
  for (std::size_t i = 0; i < devices.size(); ++i)
    pieces.push_back({DeviceId(devices[i]), box, addends ? static_cast<std::int32_t>(i) : 0});
  return Layout(pieces);
}

class RedistributionOnOneNode : public testing::Test {
 protected:
  Redistribution plan(const Layout& from, const Layout& to) {
    return redistribute(from, to, 1 << 20, prices_);
  }
  const Box whole_ = Box::whole(std::vector<std::int64_t>{8, 6});
  Topology topology_ = make_topology("levels:8@10GB/s");
  CostModel costs_{topology_};
  CommunicationPrices prices_{costs_};
};

TEST_F(RedistributionOnOneNode, BroadcastsOneBoxToMany) {
  const Redistribution r = plan(one_box(whole_, {5}, false), one_box(whole_, {1, 2, 3, 5, 6}, false));
  ASSERT_EQ(r.steps.size(), 1U);
  EXPECT_EQ(r.steps[0].kind, Collective::Broadcast);
  EXPECT_EQ(r.steps[0].group, (std::vector{DeviceId(5), DeviceId(1), DeviceId(2), DeviceId(3), DeviceId(6)}));
  EXPECT_EQ(r.elements_on_links(), 4 * 48);
}

TEST_F(RedistributionOnOneNode, ReducesManyAddendsToOneOfThem) {
  const Redistribution r = plan(one_box(whole_, {1, 2, 3, 5}, true), one_box(whole_, {3}, false));
  ASSERT_EQ(r.steps.size(), 1U);
  EXPECT_EQ(r.steps[0].kind, Collective::Reduce);
  EXPECT_EQ(r.steps[0].group, (std::vector{DeviceId(3), DeviceId(1), DeviceId(2), DeviceId(5)}));
  EXPECT_EQ(r.elements_on_links(), 3 * 48);
}

TEST_F(RedistributionOnOneNode, AddsACopiedTermAfterThePartialOnes) {
  std::vector<Layout::Piece> pieces;
  for (std::int32_t d = 0; d < 4; ++d) pieces.push_back({DeviceId(d), whole_, d});
  for (std::int32_t d = 0; d < 4; ++d) pieces.push_back({DeviceId(d), whole_, 4});
  const Redistribution r = plan(Layout(pieces), one_box(whole_, {0, 1, 2, 3}, false));
  ASSERT_EQ(r.steps.size(), 1U);
  EXPECT_EQ(r.steps[0].kind, Collective::AllReduce);
  EXPECT_EQ(r.elements_on_links(), 2 * 3 * 48);
}

TEST_F(RedistributionOnOneNode, WhatNoAddendCoversIsZero) {
  Box top = whole_;
  top[0] = {0, 3};
  const Redistribution r = plan(one_box(top, {0}, false), one_box(whole_, {1}, false));
  EXPECT_EQ(r.elements_on_links(), top.elements());
}

// Every device adds what it gets: the blocks of an all-to-all keep the addends of those who gave them.
TEST_F(RedistributionOnOneNode, AddendsInSlicesAreExchangedApart) {
  const Box box = Box::whole(std::vector<std::int64_t>{8, 8});
  std::vector<Layout::Piece> from, to;
  for (std::int32_t d = 0; d < 4; ++d) {
    Box rows = box, columns = box;
    rows[0] = part_of(8, 2, d / 2);
    columns[1] = part_of(8, 4, d);
    from.push_back({DeviceId(d), rows, d % 2});
    to.push_back({DeviceId(d), columns, 0});
  }
  const Redistribution r = plan(Layout(from), Layout(to));
  check_complete(Layout(from), Layout(to), r);
  ASSERT_EQ(r.steps.size(), 1U);
  EXPECT_EQ(r.steps[0].kind, Collective::AllToAll);
  EXPECT_EQ(r.steps[0].gives_addend, (std::vector<std::int32_t>{0, 1, 0, 1}));
  EXPECT_EQ(r.elements_on_links(), 4 * 3 * 8);
}

// [samples, groups, experts, slots]: tokens on 2 x 2 devices, as a dispatch leaves them.
Box routed(Range samples, Range groups, Range experts) {
  return Box(std::vector<Range>{samples, groups, experts, {0, 4}});
}
std::vector<Layout::Piece> tokens_on_a_grid() {
  std::vector<Layout::Piece> pieces;
  for (std::int32_t d = 0; d < 4; ++d)
    pieces.push_back({DeviceId(d), routed(part_of(4, 2, d / 2), part_of(2, 2, d % 2), {0, 8}), 0});
  return pieces;
}

TEST_F(RedistributionOnOneNode, ExchangesPartsOfAGridAllToAll) {
  std::vector<Layout::Piece> experts;
  for (std::int32_t d = 0; d < 4; ++d)
    experts.push_back({DeviceId(d), routed({0, 4}, {0, 2}, part_of(8, 4, d)), 0});
  const Layout tokens(tokens_on_a_grid());
  for (const auto& [from, to] : {std::pair(tokens, Layout(experts)), std::pair(Layout(experts), tokens)}) {
    const Redistribution r = plan(from, to);
    check_complete(from, to, r);
    ASSERT_EQ(r.steps.size(), 1U);
    EXPECT_EQ(r.steps[0].kind, Collective::AllToAll);
    EXPECT_EQ(r.elements_on_links(), 4 * 2 * 8 * 4 * 3 / 4);
  }
}

TEST_F(RedistributionOnOneNode, ScalarsAreAddedToo) {
  EXPECT_EQ(plan(one_box(Box(), {0, 1}, true), one_box(Box(), {0, 1}, false)).elements_on_links(), 2);
  EXPECT_EQ(plan(one_box(Box(), {0, 1}, true), one_box(Box(), {4}, false)).elements_on_links(), 2);
}

TEST(Covered, LooksAtUnionsOfBoxes) {
  const auto box = [](Range a, Range b) { return Box(std::vector<Range>{a, b}); };
  const std::vector<Box> corner{box({0, 4}, {0, 2}), box({0, 2}, {0, 4}), box({3, 4}, {2, 4})};
  EXPECT_FALSE(covered(box({0, 4}, {0, 4}), corner));
  EXPECT_TRUE(covered(box({0, 2}, {0, 4}), corner));
  EXPECT_TRUE(covered(box({0, 4}, {0, 2}), corner));
  EXPECT_TRUE(covered(box({0, 2}, {1, 3}), corner));
  EXPECT_FALSE(covered(box({2, 4}, {1, 3}), corner));
  EXPECT_FALSE(covered(box({0, 1}, {0, 1}), {}));
}

}  // namespace
}  // namespace pipesim
