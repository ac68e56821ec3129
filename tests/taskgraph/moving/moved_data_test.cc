#include "taskgraph/moving/moved_data.h"

#include <gmock/gmock.h>

#include "tests/sim/random_graph.h"
#include "tests/taskgraph/random_layouts.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using Values = std::vector<double>;  // of a box, row-major

std::size_t offset_in(const Box& box, const std::vector<std::int64_t>& point) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < box.dims(); ++i) offset = offset * box[i].length() + point[i] - box[i].begin;
  return static_cast<std::size_t>(offset);
}

template <class Visit>
void for_each_point(const Box& box, Visit visit) {
  std::vector<std::int64_t> point;
  for (std::size_t i = 0; i < box.dims(); ++i) point.push_back(box[i].begin);
  for (std::int64_t n = box.elements(); n > 0; --n) {
    visit(point);
    for (std::size_t i = box.dims(); i-- > 0;) {
      if (++point[i] < box[i].end) break;
      point[i] = box[i].begin;
    }
  }
}

// A different integer for every element of every addend, so that sums in any order are exact.
double value_of(std::int32_t addend, const std::vector<std::int64_t>& point) {
  double value = 1 + addend;
  for (const std::int64_t x : point) value = value * 17 + static_cast<double>(x);
  return value;
}

bool lies_in(const Box& box, const std::vector<std::int64_t>& point) {
  for (std::size_t i = 0; i < point.size(); ++i) {
    if (point[i] < box[i].begin || point[i] >= box[i].end) return false;
  }
  return true;
}

double expected(const Layout& from, const std::vector<std::int64_t>& point) {
  double sum = 0;
  for (std::int32_t a = 0; a < from.num_addends(); ++a) {
    const bool exists = std::any_of(from.entries().begin(), from.entries().end(), [&](const LayoutEntry& e) {
      return e.addend == a && lies_in(from.box(e), point);
    });
    if (exists) sum += value_of(a, point);
  }
  return sum;
}

// Runs a redistribution on arrays, step after step.
class ArrayRun {
 public:
  ArrayRun(const Layout& from, const Layout& to, const Redistribution& r, std::size_t devices)
      : r_(r), movement_(from, to, r), held_(devices) {
    for (std::size_t d = 0; d < devices; ++d) {
      for (const Fragment& f : movement_.fragments(DeviceId(d))) {
        Values values(static_cast<std::size_t>(f.box.elements()), -1e9);
        if (f.step < 0) {
          for_each_point(f.box,
                         [&](const auto& p) { values[offset_in(f.box, p)] = value_of(f.addends[0], p); });
        }
        held_[d].push_back(std::move(values));
      }
    }
    for (std::size_t s = 0; s < r.steps.size(); ++s) run_step(s);
  }

  [[nodiscard]] Values result(DeviceId device, const Box& want) const {
    return filled(device, movement_.result(device, want));
  }

 private:
  [[nodiscard]] Values filled(DeviceId device, const Assembly& a) const {
    Values out(static_cast<std::size_t>(a.box.elements()), a.gaps ? 0 : 1e9);
    for (const MovedPart& part : a.parts) {
      const auto f = static_cast<std::size_t>(part.fragment);
      const Box& box = movement_.fragments(device)[f].box;
      for_each_point(part.region, [&](const auto& p) {
        const double value = held_[device.index()][f][offset_in(box, p)];
        double& to = out[offset_in(a.box, p)];
        to = part.add ? to + value : value;
      });
    }
    return out;
  }

  // What ranks hand in for `to`, in rank order.
  [[nodiscard]] std::vector<Values> incoming(std::size_t s, std::size_t to) const {
    const RedistributionStep& step = r_.steps[s];
    const bool blocks = step.kind == Collective::ReduceScatter || step.kind == Collective::AllToAll;
    std::vector<Values> values;
    for (std::size_t rank = 0; rank < step.group.size(); ++rank) {
      const std::vector<Assembly> given = movement_.given(s, rank);
      for (std::size_t i = blocks ? to : 0; i < (blocks ? to + 1 : given.size()); ++i)
        values.push_back(filled(step.group[rank], given[i]));
    }
    return values;
  }

  void run_step(std::size_t s) {
    const RedistributionStep& step = r_.steps[s];
    const bool sum = step.kind == Collective::AllReduce || step.kind == Collective::ReduceScatter ||
                     step.kind == Collective::Reduce;
    std::vector<std::vector<Values>> results;
    for (std::size_t rank = 0; rank < step.group.size(); ++rank) {
      std::vector<Values> values = incoming(s, rank);
      for (std::size_t i = 1; sum && i < values.size(); ++i) {
        EXPECT_EQ(values[i].size(), values[0].size());
        for (std::size_t e = 0; e < values[0].size(); ++e) values[0][e] += values[i][e];
      }
      if (sum) values.resize(1);
      results.push_back(std::move(values));
    }
    for (std::size_t rank = 0; rank < step.group.size(); ++rank) land(s, rank, results[rank]);
  }

  void land(std::size_t s, std::size_t rank, const std::vector<Values>& results) {
    const DeviceId device = r_.steps[s].group[rank];
    const auto fragments = movement_.fragments(device);
    for (std::size_t f = 0; f < fragments.size(); ++f) {
      if (fragments[f].step != static_cast<std::int32_t>(s)) continue;
      const Values& values = results.at(static_cast<std::size_t>(fragments[f].index));
      EXPECT_EQ(values.size(), held_[device.index()][f].size());
      held_[device.index()][f] = values;
    }
  }

  const Redistribution& r_;
  DataMovement movement_;
  std::vector<std::vector<Values>> held_;  // by device and fragment
};

void check_values(const Layout& from, const Layout& to, std::int64_t element, CommunicationPrices& prices) {
  const Redistribution r = redistribute(from, to, element, prices);
  const ArrayRun run(from, to, r, prices.topology().num_devices());
  for (const LayoutEntry& want : to.entries()) {
    const Values values = run.result(want.device, to.box(want));
    for_each_point(to.box(want),
                   [&](const auto& p) { ASSERT_EQ(values[offset_in(to.box(want), p)], expected(from, p)); });
  }
}

// Boxes of a grid grown over its cuts: copies of a halo, or overlapping addends.
std::vector<Layout::Piece> grown(std::vector<Layout::Piece> pieces, const std::vector<std::int64_t>& shape,
                                 std::int64_t by, bool addends) {
  std::vector<Box> boxes;
  for (Layout::Piece& p : pieces) {
    if (std::find(boxes.begin(), boxes.end(), p.box) == boxes.end()) boxes.push_back(p.box);
    if (addends)
      p.addend = static_cast<std::int32_t>(std::find(boxes.begin(), boxes.end(), p.box) - boxes.begin());
    for (std::size_t i = 0; i < shape.size(); ++i) {
      p.box[i] = {std::max<std::int64_t>(0, p.box[i].begin - by), std::min(shape[i], p.box[i].end + by)};
    }
  }
  return pieces;
}

Layout summed(std::vector<std::vector<Layout::Piece>> terms) {
  std::vector<Layout> layouts;
  for (std::vector<Layout::Piece>& t : terms) layouts.emplace_back(std::move(t));
  std::vector<const Layout*> pointers;
  for (const Layout& l : layouts) pointers.push_back(&l);
  return sum_of(pointers);
}

TEST(DataMovement, BringsTheSumOfAllAddendsToEveryElement) {
  const Topology topologies[] = {make_topology("p100-4x4"), make_topology("levels:3@20GB/s,2@5GB/s,2@1GB/s")};
  const CostModel models[] = {CostModel(topologies[0]), CostModel(topologies[1])};
  for_each_seed(3000, [&](Rng& rng) {
    const std::size_t which = rng.below(2), devices = topologies[which].num_devices();
    CommunicationPrices prices(models[which]);
    const std::vector<std::int64_t> shape = random_shape(rng);
    GridLayout from = random_grid(rng, shape, devices, true), to = random_grid(rng, shape, devices, false);
    if (from.devices.size() == to.devices.size() && rng.below(2) == 0) to.devices = from.devices;
    std::vector<std::vector<Layout::Piece>> terms{from.pieces()};
    if (from.addends == 1 && from.copies == 1 && rng.below(4) == 0)
      terms[0] = grown(terms[0], shape, 1, true);
    while (rng.below(3) == 0) terms.push_back(random_grid(rng, shape, devices, true).pieces());
    std::vector<Layout::Piece> wanted = to.pieces();
    if (rng.below(4) == 0) wanted = grown(wanted, shape, 1, false);
    check_values(summed(std::move(terms)), Layout(wanted), std::int64_t{4} << 10 * rng.below(3), prices);
  });
}

TEST(DataMovement, BringsItThroughComposedCollectivesToo) {
  const Topology topologies[] = {make_topology("p100-4x4"), make_topology("levels:3@20GB/s,2@5GB/s,2@1GB/s")};
  const CostModel models[] = {CostModel(topologies[0]), CostModel(topologies[1])};
  for_each_seed(1000, [&](Rng& rng) {
    CommunicationPrices prices(models[rng.below(2)]);
    const RandomMeshChange change = random_mesh_change(rng, prices.topology().num_devices());
    const Layout before = change.mesh.layout(change.before), residual = change.mesh.layout(change.after);
    std::vector<const Layout*> terms{&before};
    if (rng.below(4) == 0) terms.push_back(&residual);
    check_values(sum_of(terms), change.mesh.layout(change.after), std::int64_t{4} << 10 * rng.below(3),
                 prices);
  });
}

TEST(DataMovement, BringsItBetweenMeshesInAnyWay) {
  const Topology topologies[] = {make_topology("p100-4x4"), make_topology("levels:3@20GB/s,2@5GB/s,2@1GB/s"),
                                 make_topology("levels:4@20GB/s,4@1GB/s")};
  const CostModel models[] = {CostModel(topologies[0]), CostModel(topologies[1]), CostModel(topologies[2])};
  int with_turns = 0;
  for_each_seed(1000, [&](Rng& rng) {
    CommunicationPrices prices(models[rng.below(3)]);
    const std::vector<std::int64_t> shape = random_shape(rng);
    const auto [from, to] = random_grids_apart(rng, shape, prices.topology().num_devices());
    const std::int64_t element = std::int64_t{4} << 12 * rng.below(3);
    std::vector<Layout::Piece> wanted = to.pieces();
    if (rng.below(4) == 0) wanted = grown(wanted, shape, 1, false);
    check_values(Layout(from.pieces()), Layout(wanted), element, prices);
    const Redistribution r = redistribute(Layout(from.pieces()), Layout(wanted), element, prices);
    with_turns += !r.steps.empty() && r.steps.front().turn != RedistributionStep::no_turn ? 1 : 0;
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(with_turns, sanitized ? 10 : 50);
  }
}

TEST(DataMovement, LeavesElementsWithoutAddendZero) {
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  CommunicationPrices prices(costs);
  const auto rows = [](std::int64_t begin, std::int64_t end) {
    return Box(std::vector<Range>{{begin, end}});
  };
  // Rows 3 and 7 belong to no window.
  const Layout from({{DeviceId(0), rows(0, 3), 0}, {DeviceId(1), rows(4, 7), 1}});
  const Layout to({{DeviceId(0), rows(0, 4), 0}, {DeviceId(1), rows(4, 8), 0}});
  check_values(from, to, 4, prices);
  const Redistribution r = redistribute(from, to, 4, prices);
  EXPECT_TRUE(DataMovement(from, to, r).result(DeviceId(0), rows(0, 4)).gaps);
}

TEST(DataMovement, UsesAnEntryAsItIsWhereNothingMustMove) {
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  CommunicationPrices prices(costs);
  const std::vector<std::int64_t> shape{8, 4};
  const Layout layout({{DeviceId(0), Box::whole(shape), 0}, {DeviceId(1), Box::whole(shape), 0}});
  const Redistribution r = redistribute(layout, layout, 4, prices);
  const DataMovement movement(layout, layout, r);
  EXPECT_TRUE(movement.result(DeviceId(1), Box::whole(shape)).is_fragment(movement.fragments(DeviceId(1))));
}

// Gradients of state that nodes divide, and of which each has a copy: node by node they are reduced to parts,
// and these are summed over the nodes.
TEST(DataMovement, SumsWhatNodesHaveReducedToParts) {
  for (const std::size_t nodes : {2U, 3U, 5U, 7U}) {
    const Topology topology = make_topology("levels:4@20GB/s," + std::to_string(nodes) + "@1GB/s");
    const CostModel costs(topology);
    CommunicationPrices prices(costs);
    const Box box = Box::whole(std::vector<std::int64_t>{8, 4});
    std::vector<Layout::Piece> addends, parts;
    for (std::int32_t d = 0; d < static_cast<std::int32_t>(4 * nodes); ++d) {
      Box part = box;
      part[0] = part_of(8, 4, d % 4);
      addends.push_back({DeviceId(d), box, d});
      parts.push_back({DeviceId(d), part, 0});
    }
    const Layout from(addends), to(parts);
    const Redistribution r = redistribute(from, to, 1 << 20, prices);
    EXPECT_EQ(r.steps.size(), nodes + 4) << nodes;
    for (const RedistributionStep& s : r.steps) {
      EXPECT_EQ(s.kind, s.round == 0 ? Collective::ReduceScatter : Collective::AllReduce);
      EXPECT_EQ(s.group.size(), s.round == 0 ? 4 : nodes);
    }
    const ArrayRun run(from, to, r, topology.num_devices());
    for (const LayoutEntry& want : to.entries()) {
      const Values values = run.result(want.device, to.box(want));
      for_each_point(to.box(want), [&](const auto& p) {
        EXPECT_EQ(values[offset_in(to.box(want), p)], expected(from, p));
      });
    }
  }
}

}  // namespace
}  // namespace pipesim
