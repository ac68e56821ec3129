#include "taskgraph/binding/bound_operator.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/models/samples.h"
#include "tests/sim/random_graph.h"
#include "tests/taskgraph/expansion.h"
#include "tests/taskgraph/random_strategies.h"

namespace pipesim {
namespace {

using testing::ElementsAre;

using Point = std::vector<std::int64_t>;

// The ranges of every shard, worked out from the definition: replicas slowest, the last factor fastest.
std::vector<std::vector<Range>> shard_ranges(const Operator& op, const ParallelConfig& config) {
  std::vector<std::vector<Range>> shards{{}};
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    std::vector<std::vector<Range>> longer;
    const std::int64_t units = op.factors[f].size / op.factors[f].granule, d = config.degrees[f];
    for (const auto& ranges : shards) {
      for (std::int64_t k = 0; k < d; ++k) {
        longer.push_back(ranges);
        longer.back().push_back(
            {k * units / d * op.factors[f].granule, (k + 1) * units / d * op.factors[f].granule});
      }
    }
    shards = std::move(longer);
  }
  const std::size_t once = shards.size();
  for (std::int32_t r = 1; r < config.replicas; ++r) {
    for (std::size_t k = 0; k < once; ++k) shards.push_back(shards[k]);
  }
  return shards;
}

// How many points of the factors' ranges touch index x of this dimension.
std::int64_t touches(const IndexExpr& dim, const Operator& op, const std::vector<Range>& ranges,
                     std::int64_t x) {
  const auto in = [&](FactorIndex f, std::int64_t i) {
    return ranges[static_cast<std::size_t>(f)].begin <= i && i < ranges[static_cast<std::size_t>(f)].end;
  };
  std::int64_t count = 0;
  switch (dim.kind) {
    case IndexExpr::Kind::Whole:
      return 1;
    case IndexExpr::Kind::Axis:
      return in(dim.factors[0], x - dim.offset) ? 1 : 0;
    case IndexExpr::Kind::Window: {
      const Range r = ranges[static_cast<std::size_t>(dim.factors[0])];
      for (std::int64_t i = r.begin; i < r.end; ++i) {
        for (std::int64_t t = 0; t < dim.kernel; ++t)
          count += dim.stride * i - dim.pad + dim.dilation * t == x ? 1 : 0;
      }
      return count;
    }
    case IndexExpr::Kind::Merged:
      for (std::size_t j = dim.factors.size(); j-- > 0;) {
        const std::int64_t size = op.factors[static_cast<std::size_t>(dim.factors[j])].size;
        if (!in(dim.factors[j], x % size)) return 0;
        x /= size;
      }
      return 1;
  }
  return 0;
}

// Terms that this shard adds at an element: one for each point of the factors that touches it. Along factors
// that are `Once` or `Same` a shard's value is whole already.
std::int64_t terms_at(const Operator& op, const TensorUse& use, const std::vector<Range>& ranges,
                      const Point& p) {
  std::int64_t product = 1;
  for (std::size_t d = 0; d < use.dims.size(); ++d) product *= touches(use.dims[d], op, ranges, p[d]);
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    const auto factor = static_cast<FactorIndex>(f);
    if (!use.follows(factor) && use.lack(factor) == Lack::Summed) product *= ranges[f].length();
  }
  return product;
}

void for_each_point(const TensorUse& use, const std::function<void(const Point&)>& visit) {
  Point p(use.dims.size(), 0);
  for (;;) {
    visit(p);
    std::size_t d = p.size();
    while (d > 0 && ++p[d - 1] == use.dims[d - 1].extent) p[--d] = 0;
    if (d == 0) return;
  }
}

bool inside(const Box& box, const Point& p) {
  for (std::size_t d = 0; d < p.size(); ++d) {
    if (p[d] < box[d].begin || p[d] >= box[d].end) return false;
  }
  return true;
}

struct Trial {
  const Operator& op;
  const ParallelConfig& config;
  std::vector<std::vector<Range>> shards;

  [[nodiscard]] const std::vector<Range>& ranges(DeviceId device) const {
    const auto it = std::find(config.devices.begin(), config.devices.end(), device);
    return shards[static_cast<std::size_t>(it - config.devices.begin())];
  }

  // The layout's meaning: Σ over distinct addends at every element is what the unsplit operator computes
  // there, and copies agree.
  void check_sums(const TensorUse& use, const Layout& layout) const {
    const std::vector<Range> whole = whole_ranges(op);
    for_each_point(use, [&](const Point& p) {
      std::map<std::int32_t, std::int64_t> values;
      bool agree = true;
      for (const LayoutEntry& e : layout.entries()) {
        if (!inside(layout.box(e), p)) continue;
        const std::int64_t terms = terms_at(op, use, ranges(e.device), p);
        agree = values.emplace(e.addend, terms).first->second == terms && agree;
      }
      std::int64_t sum = 0;
      for (const auto& [addend, terms] : values) sum += terms;
      EXPECT_TRUE(agree) << "copies of one addend differ";
      EXPECT_EQ(sum, terms_at(op, use, whole, p));
    });
  }

  // Every shard holds all that it touches, once.
  void check_required(const TensorUse& use, const Layout& layout) const {
    EXPECT_LE(layout.num_addends(), 1);
    for (std::size_t k = 0; k < config.devices.size(); ++k) {
      const auto entries = layout.entries_on(config.devices[k]);
      ASSERT_LE(entries.size(), 1U);
      for_each_point(use, [&](const Point& p) {
        bool touched = !excluded(use, k);
        for (std::size_t d = 0; d < p.size(); ++d)
          touched = touched && touches(use.dims[d], op, shards[k], p[d]) > 0;
        EXPECT_TRUE(!touched || (!entries.empty() && inside(layout.box(entries[0]), p)));
      });
      EXPECT_TRUE(!excluded(use, k) || entries.empty());
    }
  }

  // Along a factor that is `Once`, all but the first shard.
  [[nodiscard]] bool excluded(const TensorUse& use, std::size_t k) const {
    for (std::size_t f = 0; f < op.factors.size(); ++f) {
      const auto factor = static_cast<FactorIndex>(f);
      if (!use.follows(factor) && use.lack(factor) == Lack::Once && shards[k][f].begin > 0) return true;
    }
    return false;
  }
};

TEST(BoundOperator, LayoutsMeanWhatTheOperatorComputes) {
  const std::vector<Operator> ops = operators_of_all_kinds();
  for_each_seed(8, [&](Rng& rng) {
    for (const Operator& op : ops) {
      ParallelConfig config = random_config(op, rng, 16, 12);
      config.ring = false;  // a shard computes more than one block, see ring_test.cc
      SCOPED_TRACE(op.kind + ": " + config.str(op));
      const Trial trial{op, config, shard_ranges(op, config)};
      for (std::size_t u = 0; u < op.uses.size(); ++u) {
        const TensorUse& use = op.uses[u];
        SCOPED_TRACE(fmt::format("use {}", u));
        if (use.role == Role::State) continue;
        trial.check_required(use, required_layout(op, use, config));
        if (use.role == Role::Output) {
          trial.check_sums(use, produced_layout(op, use, config));
          trial.check_required(use, required_gradient_layout(op, use, config));
        } else if (use.role != Role::Index) {
          trial.check_sums(use, gradient_layout(op, use, config));
        }
      }
    }
  });
}

OperatorGraph with_loss(const std::string& kind, std::vector<std::int64_t> shape,
                        const Attributes& attributes = {}) {
  GraphBuilder b("one", shape[0]);
  const TensorId x = b.add("mul", "before", {b.data("x", shape), b.data("y", std::move(shape))});
  b.add(kind, "op", {x}, attributes);
  return b.build();
}

TEST(BoundOperator, StatisticsCostTheCollectivesOfTheTable) {
  const auto inner = [](const OperatorGraph& graph, const Split& split) {
    return Expansion(graph, "p100-4x4", {{"op", split}}).traffic().front();
  };
  const std::vector<std::int32_t> four = devices_from(0, 4);
  // Batch norm: Σx and Σx² of 5 channels in float64; layer norm: two sums of 6 rows; softmax: a maximum of 3
  // rows.
  EXPECT_EQ(inner(with_loss("batch_norm", {4, 5, 4, 4}), {{{"n", 4}}, four}),
            "forward op inside: all-reduce 0,1,2,3 of 480 B");
  EXPECT_EQ(inner(with_loss("layer_norm", {2, 3, 8}), {{{"h", 4}}, four}),
            "forward op inside: all-reduce 0,1,2,3 of 576 B");
  EXPECT_EQ(inner(with_loss("rms_norm", {2, 3, 8}), {{{"h", 4}}, four}),
            "forward op inside: all-reduce 0,1,2,3 of 288 B");
  EXPECT_EQ(inner(with_loss("softmax", {3, 8}), {{{"v", 4}}, four}),
            "forward op inside: all-reduce 0,1,2,3 of 72 B");
}

TEST(BoundOperator, InnerReducesJoinShardsThatDifferInTheirFactorsOnly) {
  const Expansion e(with_loss("batch_norm", {4, 6, 4, 4}), "p100-4x4",
                    {{"op", {{{"n", 2}, {"c", 2}, {"h", 2}}, {7, 6, 5, 4, 3, 2, 1, 0}}}});
  std::vector<std::vector<DeviceId>> groups;
  for (const InnerExchange& x : e.bound.back()->forward.exchanges) {
    if (x.step == 0) groups.push_back(x.task.group);
  }
  const auto devices = [](std::vector<std::int32_t> ids) {
    return std::vector<DeviceId>(ids.begin(), ids.end());
  };
  EXPECT_THAT(groups, ElementsAre(devices({2, 3, 6, 7}), devices({0, 1, 4, 5})));
}

TEST(BoundOperator, ReplicasReduceAmongThemselves) {
  const Expansion e(with_loss("layer_norm", {2, 3, 8}), "p100-4x4", {{"op", {{{"h", 2}}, {0, 1, 2, 3}, 2}}});
  const std::vector<InnerExchange>& exchanges = e.bound.back()->forward.exchanges;
  ASSERT_EQ(exchanges.size(), 2U);
  EXPECT_EQ(exchanges[0].shards, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(exchanges[1].shards, (std::vector<std::int32_t>{2, 3}));
}

TEST(BoundOperator, StagesAddUpToThePass) {
  const Expansion split(with_loss("softmax", {6, 8}), "p100-4x4", {{"op", {{{"v", 4}}, {0, 1, 2, 3}}}});
  const PassWork& work = split.bound.back()->forward;
  ASSERT_EQ(work.stages(), 3U);
  const std::vector<Range> ranges{{0, 6}, {0, 2}};
  const Operator& op = split.graph.operators().back();
  const Seconds whole = split.costs.operator_time(split.graph, op, Pass::Forward, ranges, DeviceId(0));
  EXPECT_EQ(work.durations[0] + work.durations[4] + work.durations[8], to_nanoseconds(whole));
  EXPECT_EQ(work.durations[0], to_nanoseconds(whole * 0.2));
}

}  // namespace
}  // namespace pipesim
