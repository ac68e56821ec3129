#include "taskgraph/plan/parallel_config.h"

#include <gtest/gtest.h>

#include "models/graph_builder.h"
#include "taskgraph/plan/plan.h"
#include "tests/taskgraph/expansion.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using Sizes = std::vector<std::int64_t>;

OperatorGraph two_linears() {
  GraphBuilder b("two", 8);
  const TensorId x = b.add("linear", "fc1", {b.data("x", {8, 6})}, {{"out", Sizes{12}}});
  b.add("linear", "fc2", {x}, {{"out", Sizes{4}}});
  return b.build();
}

class Legality : public testing::Test {
 protected:
  std::string reason(const Operator& op, const Split& split) {
    return illegal(op, config_of(op, split), topology_).value_or("legal");
  }
  const Topology topology_ = make_topology("levels:4@10GB/s");
  const OperatorGraph graph_ = two_linears();
  const Operator& fc1_ = graph_.operators()[0];
};

TEST_F(Legality, AcceptsAnyDistinctDevices) {
  EXPECT_EQ(reason(fc1_, {{}, {3}}), "legal");
  EXPECT_EQ(reason(fc1_, {{{"b", 2}}, {3, 0, 1, 2}, 2}), "legal");
  EXPECT_EQ(reason(fc1_, {{{"i", 3}}, {2, 0, 1}}), "legal");
}

TEST_F(Legality, RefusesDegrees) {
  EXPECT_EQ(reason(fc1_, {{{"b", 3}}, {0, 1, 2}}), "degree 3 does not divide factor b of size 8");
  EXPECT_EQ(reason(fc1_, {{{"b", 16}}, {0}}), "degree 16 of factor b, which has at most 8 parts");
  EXPECT_EQ(reason(fc1_, {{{"b", 0}}, {0}}), "degree 0 of factor b; 1 or more is needed");
  EXPECT_EQ(reason(fc1_, {{{"b", -2}}, {0}}), "degree -2 of factor b; 1 or more is needed");
  EXPECT_EQ(illegal_degrees(fc1_, std::vector<std::int32_t>{1}), "1 degrees for 3 factors");
}

TEST_F(Legality, RefusesReplicasAndDevices) {
  EXPECT_EQ(reason(fc1_, {{}, {0}, 0}), "0 replicas; 1 or more are needed");
  EXPECT_EQ(reason(fc1_, {{{"b", 4}}, {0, 1, 2, 3}, 2}), "8 shards for 4 devices");
  EXPECT_EQ(reason(fc1_, {{{"b", 4}}, {0, 1, 2}}), "3 devices listed for 4 shards");
  EXPECT_EQ(reason(fc1_, {{{"b", 2}}, {0, 4}}), "device 4 does not exist");
  EXPECT_EQ(reason(fc1_, {{{"b", 2}}, {0, -1}}), "device -1 does not exist");
  EXPECT_EQ(reason(fc1_, {{{"b", 2}}, {1, 1}}), "device gpu1 is listed twice");
}

TEST_F(Legality, RefusesMoreShardsThanCanBeCounted) {
  constexpr std::int32_t k = 1 << 16;
  GraphBuilder b("large", k);
  b.add("linear", "op", {b.data("x", {k, k})}, {{"out", Sizes{k}}, {"bias", 0}});
  const OperatorGraph graph = b.build();
  const ParallelConfig config{{k, k, k}, k, {}};  // 2^64 shards
  EXPECT_EQ(config.num_shards(), INT64_MAX);
  EXPECT_EQ(illegal(graph.operators()[0], config, topology_), "9223372036854775807 shards for 4 devices");
}

TEST_F(Legality, KeepsGranulesAndUnsplittableFactorsWhole) {
  Operator op = fc1_;
  op.factors[2].granule = 3;
  EXPECT_EQ(reason(op, {{{"o", 4}}, {0, 1, 2, 3}}), "legal");
  EXPECT_EQ(reason(op, {{{"o", 3}}, {0, 1, 2}}),
            "degree 3 does not divide factor o of size 12 in units of 3");
  EXPECT_EQ(reason(op, {{{"o", 6}}, {0}}), "degree 6 of factor o, which has at most 4 parts");
  op.factors[2].max_degree = 1;
  EXPECT_EQ(reason(op, {{{"o", 2}}, {0, 1}}), "factor o can't be split");
  op.factors[1].uneven = true;
  EXPECT_EQ(reason(op, {{{"i", 4}}, {0, 1, 2, 3}}), "legal");
}

TEST_F(Legality, MergedFactorsAreCutFromTheMostMajor) {
  GraphBuilder b("grouped", 2);
  b.add("conv2d", "conv", {b.data("x", {2, 8, 4, 4})}, {{"out", 8}, {"kernel", 1}, {"groups", 2}});
  const OperatorGraph graph = b.build();
  const Operator& conv = graph.operators()[0];
  EXPECT_EQ(reason(conv, {{{"i", 2}}, {0, 1}}),
            "factor i is cut below factor g, which is not split to single elements");
  EXPECT_EQ(reason(conv, {{{"o", 2}}, {0, 1}}),
            "factor o is cut below factor g, which is not split to single elements");
  EXPECT_EQ(reason(conv, {{{"g", 2}}, {0, 1}}), "legal");
  EXPECT_EQ(reason(conv, {{{"g", 2}, {"i", 2}}, {0, 1, 2, 3}}), "legal");
}

TEST_F(Legality, OfAStrategyNamesTheOperator) {
  Strategy strategy{single_device(fc1_, DeviceId(0))};
  EXPECT_EQ(illegal(graph_, strategy, topology_), "1 configs for 2 operators");
  strategy.push_back(config_of(graph_.operators()[1], {{{"o", 3}}, {0, 1, 2}}));
  EXPECT_EQ(illegal(graph_, strategy, topology_),
            "operator \"fc2\": degree 3 does not divide factor o of size 4");
  strategy[1] = single_device(graph_.operators()[1], DeviceId(3));
  EXPECT_EQ(illegal(graph_, strategy, topology_), std::nullopt);
}

OperatorGraph two_attentions() {
  GraphBuilder b("attentions", 2);
  const TensorId q = b.data("q", {2, 8, 2, 1, 4}), k = b.data("k", {2, 8, 2, 4}),
                 far = b.data("far", {2, 6, 2, 4});
  b.add("attention", "self", {q, k, k});
  b.add("attention", "cross", {q, far, far});
  b.add("scored_attention", "scored", {q, k, k});
  return b.build();
}

TEST_F(Legality, RefusesRings) {
  const OperatorGraph graph = two_attentions();
  const Operator &self = graph.operators()[0], &cross = graph.operators()[1], &scored = graph.operators()[2];
  const std::vector<std::int32_t> four = devices_from(0, 4);
  EXPECT_EQ(reason(self, {{{"s", 4}}, four, 1, true}), "legal");
  EXPECT_EQ(reason(self, {{{"s", 2}, {"g", 2}}, four, 1, true}), "legal");
  EXPECT_EQ(reason(self, {{{"s", 2}, {"t", 2}}, four, 1, true}),
            "a ring, allowed: where factor t is not split");
  EXPECT_EQ(reason(self, {{{"b", 2}, {"g", 2}}, four, 1, true}), "a ring, allowed: where factor s is split");
  EXPECT_EQ(reason(self, {{{"s", 3}}, devices_from(0, 3), 1, true}),
            "a ring of 3, allowed: divisors of the 8 of factor s");
  EXPECT_EQ(reason(cross, {{{"s", 4}}, four, 1, true}),
            "a ring, allowed: for attention with as many keys as queries, but not attention");
  EXPECT_EQ(reason(scored, {{{"s", 4}}, four, 1, true}),
            "a ring, allowed: for attention with as many keys as queries, but not scored_attention");
  EXPECT_EQ(config_of(self, {{{"s", 4}}, four, 1, true}).str(self), "s/4 in a ring on 4 devices from 0");
}

TEST(ShardGrid, PartsOfKeysComeRoundTheRing) {
  const OperatorGraph graph = two_attentions();
  const Operator& op = graph.operators()[0];
  const auto t = static_cast<std::size_t>(op.factor("t"));
  const ShardGrid grid(op, config_of(op, {{{"s", 4}}, devices_from(0, 4), 1, true}));
  ASSERT_EQ(grid.blocks(), 4);
  std::vector<Range> ranges;
  grid.ranges(1, ranges);
  EXPECT_EQ(ranges[t], (Range{2, 4}));
  std::vector<std::int64_t> begins;
  for (std::int64_t block = 0; block < 4; ++block) {
    grid.block_ranges(1, block, ranges);
    begins.push_back(ranges[t].begin);
  }
  EXPECT_EQ(begins, (std::vector<std::int64_t>{2, 0, 6, 4}));
}

TEST(ParallelConfig, Prints) {
  const OperatorGraph graph = two_linears();
  const Operator& op = graph.operators()[0];
  EXPECT_EQ(single_device(op, DeviceId(2)).str(op), "whole on device 2");
  EXPECT_EQ(config_of(op, {{{"b", 2}, {"o", 3}}, devices_from(4, 12), 2}).str(op),
            "b/2 o/3 x2 copies on 12 devices from 4");
}

TEST(ShardGrid, ReplicasAreSlowestAndTheLastFactorFastest) {
  const OperatorGraph graph = two_linears();
  const Operator& op = graph.operators()[0];  // b, i, o
  const ParallelConfig config = config_of(op, {{{"b", 2}, {"o", 3}}, devices_from(0, 12), 2});
  const ShardGrid grid(op, config);
  EXPECT_EQ(grid.num_shards(), 12);
  EXPECT_TRUE(grid.split(0) && !grid.split(1) && grid.split(2));
  EXPECT_EQ(grid.coordinate(7, ShardGrid::replica_axis), 1);
  EXPECT_EQ(grid.coordinate(7, 0), 0);
  EXPECT_EQ(grid.coordinate(7, 2), 1);
  std::vector<Range> ranges;
  grid.ranges(11, ranges);
  EXPECT_EQ(ranges, (std::vector<Range>{{4, 8}, {0, 6}, {8, 12}}));
}

TEST(ShardGrid, CutsNestAndCoverTheFactor) {
  Factor f;
  f.uneven = true;
  for (const std::int64_t size : {1, 5, 7, 12, 35, 64}) {
    f.size = size;
    for (std::int64_t d = 1; d <= size; ++d) {
      EXPECT_EQ(cut(f, d, d - 1).end, size);
      for (std::int64_t k = 0; k < d; ++k) {
        EXPECT_GT(cut(f, d, k).length(), 0);
        EXPECT_EQ(cut(f, d, k).begin, k == 0 ? 0 : cut(f, d, k - 1).end);
        for (std::int64_t m = 2; m * d <= size; ++m)
          EXPECT_EQ(cut(f, d, k).begin, cut(f, d * m, k * m).begin);
      }
    }
  }
}

}  // namespace
}  // namespace pipesim
