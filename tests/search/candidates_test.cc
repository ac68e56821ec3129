#include "search/candidates.h"

#include <gmock/gmock.h>

#include <set>

#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "tests/sim/random_graph.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

struct Candidates {
  Candidates(std::string_view model, std::string_view topology_text)
      : graph(make_zoo_model(model)), topology(make_topology(topology_text)) {}
  OperatorGraph graph;
  Topology topology;
  CandidateSet set{graph, topology};
};

std::size_t lists_of(const CandidateSet& set, std::size_t devices) {
  std::size_t count = 0;
  for (const DeviceList& l : set.device_lists()) count += l.devices.size() == devices ? 1 : 0;
  return count;
}

TEST(CandidateSet, DeviceListsOfANodeHierarchy) {
  const Candidates c("lenet", "p100-4x4");
  EXPECT_EQ(lists_of(c.set, 1), 16U);
  EXPECT_EQ(lists_of(c.set, 2), 8U);       // pairs inside nodes
  EXPECT_EQ(lists_of(c.set, 4), 4U + 4U);  // nodes, and one device of each
  EXPECT_EQ(lists_of(c.set, 8), 2U);       // pairs of nodes
  EXPECT_EQ(lists_of(c.set, 16), 1U);
  EXPECT_EQ(c.set.device_lists().size(), 35U);
}

TEST(CandidateSet, DeviceListsOfOneNode) {
  const Candidates c("lenet", "pcie-v100-4");
  EXPECT_EQ(c.set.device_lists().size(), 4U + 2U + 1U);
}

TEST(CandidateSet, DeviceListsOfThreeNodesOfTwo) {
  const Candidates c("lenet", "levels:2@10GB/s,3@1GB/s");
  EXPECT_EQ(lists_of(c.set, 1), 6U);
  EXPECT_EQ(lists_of(c.set, 2), 3U);
  EXPECT_EQ(lists_of(c.set, 3), 2U);
  EXPECT_EQ(lists_of(c.set, 6), 1U);
}

// By the definition: every way to hand the axes to copies and factors, in order.
TEST(CandidateSet, MeshesHaveSplitsAlongTheirAxes) {
  const OperatorGraph graph = make_zoo_model("gpt:batch=16,layers=1,sequence=8");
  const Topology topology = make_topology("levels:4@10GB/s,2@5GB/s,2@1GB/s");
  for (const MeshAxes& mesh :
       {MeshAxes{16}, MeshAxes{4, 4}, MeshAxes{2, 8}, MeshAxes{8, 2}, MeshAxes{2, 2, 4}}) {
    const CandidateSet any(graph, topology), along(graph, topology, mesh);
    std::set<std::int32_t> starts;  // products of the first axes
    std::int32_t product = 1;
    starts.insert(1);
    for (const std::int32_t size : mesh) starts.insert(product *= size);
    for (std::size_t i = 0; i < graph.operators().size(); ++i) {
      const OperatorId op(i);
      std::size_t expected = 0;
      for (std::size_t c = 0; c < any.size(op); ++c) {
        const ParallelConfig config = any.config(op, c);
        if (config.devices.size() != 16) continue;
        const bool copies_last = config.devices[1] != DeviceId(1) && config.replicas < 16;
        std::vector<std::int32_t> parts = config.degrees;
        parts.insert(copies_last ? parts.end() : parts.begin(), config.replicas);
        bool follows = true;
        std::int32_t at = 1;
        for (const std::int32_t part : parts) follows = starts.contains(at *= part) && follows;
        if (!follows) continue;
        ++expected;
        EXPECT_TRUE(along.find(op, config)) << config.str(graph.op(op));
      }
      EXPECT_EQ(along.size(op), expected) << graph.op(op).name;
    }
  }
  EXPECT_THROW(CandidateSet(graph, topology, MeshAxes{4, 5}), InputError);
}

// All configs of small operators, counted by hand for one and checked one by one for all.
TEST(CandidateSet, ConfigsAreDistinctAndLegal) {
  for (const char* model :
       {"lenet", "gpt:batch=4,layers=1,sequence=8", "rnnlm:batch=4,steps=1,hidden=8,vocab=10"}) {
    const Candidates c(model, "pcie-v100-4");
    for (std::size_t i = 0; i < c.graph.operators().size(); ++i) {
      const Operator& op = c.graph.operators()[i];
      std::set<std::tuple<std::vector<std::int32_t>, std::int32_t, std::vector<std::int32_t>>> seen;
      for (std::size_t k = 0; k < c.set.size(OperatorId(i)); ++k) {
        const ParallelConfig config = c.set.config(OperatorId(i), k);
        ASSERT_EQ(illegal(op, config, c.topology), std::nullopt) << op.name << " " << config.str(op);
        std::vector<std::int32_t> devices;
        for (const DeviceId d : config.devices) devices.push_back(d.value);
        EXPECT_TRUE(seen.insert({config.degrees, config.replicas, devices}).second)
            << op.name << " " << config.str(op);
      }
    }
  }
}

TEST(CandidateSet, CountsOfOneOperator) {
  const Candidates c("mlp:batch=3,features=5,hidden=2,layers=1,classes=7", "pcie-v100-4");
  // The hidden layer has b = 3 and o = 2, and its activation forbids splitting i. There are 4 lists of 1
  // device, 2 of 2, and 1 of 4. One device has the whole layer, two have o/2 or 2 copies, and four have o/2 ×
  // 2 copies in both orders, or 4 copies.
  ASSERT_EQ(c.graph.operators()[0].attributes.at("activation"), AttributeValue("relu"));
  EXPECT_EQ(c.set.size(OperatorId(0)), 4U * 1 + 2U * 2 + 1U * 3);
}

TEST(CandidateSet, RandomIsDeterministicAndLegal) {
  const Candidates c("resnet50:batch=16,image=32", "p100-4x4");
  for_each_seed(20, [&](Rng& rng) {
    Rng twin = rng;
    for (std::size_t i = 0; i < c.graph.operators().size(); ++i) {
      const ParallelConfig config = c.set.random(OperatorId(i), rng);
      EXPECT_EQ(config, c.set.random(OperatorId(i), twin));
      EXPECT_EQ(illegal(c.graph.operators()[i], config, c.topology), std::nullopt);
    }
  });
}

TEST(CandidateSet, RandomReachesEverything) {
  const Candidates c("mlp:batch=2,features=2,hidden=2,layers=1,classes=2", "levels:2@1GB/s");
  Rng rng(1);
  std::set<std::string> seen;
  for (int i = 0; i < 500; ++i) seen.insert(c.set.random(OperatorId(0), rng).str(c.graph.operators()[0]));
  EXPECT_EQ(seen.size(), c.set.size(OperatorId(0)));
}

TEST(CandidateSet, CopiesComeInBothOrders) {
  const Candidates c("mlp:batch=4", "levels:4@1GB/s");
  const CandidateSet::Split slow{{2, 1, 1}, 2, false}, fast{{2, 1, 1}, 2, true};
  const std::vector<DeviceId> devices{DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  EXPECT_EQ(CandidateSet::place(slow, devices).devices, devices);
  EXPECT_EQ(CandidateSet::place(fast, devices).devices,
            (std::vector<DeviceId>{DeviceId(0), DeviceId(2), DeviceId(1), DeviceId(3)}));
}

TEST(CandidateSet, PositionsAndNumbersAgree) {
  const Candidates c("lenet", "p100-4x4");
  for (std::size_t i = 0; i < c.graph.operators().size(); ++i) {
    const OperatorId op(i);
    for (std::size_t k = 0; k < c.set.size(op); ++k) {
      const CandidateSet::Position p = c.set.position(op, k);
      EXPECT_EQ(c.set.index(op, p), k);
      EXPECT_EQ(CandidateSet::place(c.set.splits(op, p.size)[p.split], c.set.list(p.size, p.list).devices),
                c.set.config(op, k));
    }
  }
}

TEST(CandidateSet, FindsItsConfigs) {
  const Candidates c("resnet50:batch=16,image=32", "p100-4x4");
  for_each_seed(10, [&](Rng& rng) {
    for (std::size_t i = 0; i < c.graph.operators().size(); ++i) {
      const std::size_t k = rng.below(c.set.size(OperatorId(i)));
      EXPECT_EQ(c.set.find(OperatorId(i), c.set.config(OperatorId(i), k)), k);
    }
  });
}

TEST(CandidateSet, FindsNothingElse) {
  const Candidates c("mlp:batch=64", "p100-4x4");
  const Operator& op = c.graph.operators()[0];
  ParallelConfig config = single_device(op, DeviceId(3));
  EXPECT_TRUE(c.set.find(OperatorId(0), config));
  config.replicas = 2;
  config.devices = {DeviceId(1), DeviceId(2)};  // no aligned block
  EXPECT_EQ(c.set.find(OperatorId(0), config), std::nullopt);
  config.devices = {DeviceId(1), DeviceId(0)};  // in another order
  EXPECT_EQ(c.set.find(OperatorId(0), config), std::nullopt);
}

TEST(CandidateSet, SaysWhatItHolds) {
  const Candidates c("lenet", "p100-4x4");
  const std::string text = c.set.str();
  EXPECT_THAT(text, HasSubstr("35 device lists:\n"));
  EXPECT_THAT(text, HasSubstr("single device (1 devices)"));
  EXPECT_THAT(text, HasSubstr("1st device of every node (4 devices)"));
  EXPECT_THAT(text, HasSubstr("  conv1: "));
}

}  // namespace
}  // namespace pipesim
