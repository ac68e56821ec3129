#include "search/lower_bound/lower_bound.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "models/box.h"
#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "search/baselines/baselines.h"
#include "search/lower_bound/passes.h"
#include "tests/models/samples.h"
#include "tests/sim/random_graph.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

constexpr const char* kBoundedModels[] = {
    "lenet",
    "mlp:batch=64,hidden=256",
    "mlp:batch=4096,hidden=4096,layers=2",
    "resnet50:batch=16,image=32",
    "densenet121:batch=4,image=32",
    "inception-v3:batch=8,image=75",
    "vgg16:batch=32,image=32",
    "rnnlm:batch=32,steps=3,hidden=64,vocab=100",
    "nmt:batch=16,steps=2,hidden=64,vocab=100",
    "gpt:batch=8,layers=1,sequence=64,hidden=64,heads=4,vocab=97",
    "bert-base:batch=8,layers=1,sequence=16,hidden=48,heads=3,objective=both,vocab=101",
    "mixtral-8x7b:batch=8,layers=1,sequence=16,hidden=64,heads=8,kv_heads=2,ffn=64,experts=4,vocab=64"};
constexpr const char* kBoundedTopologies[] = {"p100-4x4",    "k80-16x4:2", "levels:2@10GB/s,3@1GB/s",
                                              "pcie-v100-4", "dgx-a100",   "flexflow-sim"};

// Any degrees, copies and devices that are legal, not only those of a CandidateSet.
ParallelConfig random_config(const Operator& op, const Topology& topology, Rng& rng) {
  ParallelConfig config = single_device(op, DeviceId(0));
  const auto available = static_cast<std::int64_t>(topology.num_devices());
  const auto attempts = rng.below(4);
  for (std::uint64_t i = 0; i < attempts; ++i) {
    ParallelConfig next = config;
    if (rng.below(6) == 0) {
      next.replicas = static_cast<std::int32_t>(1 + rng.below(3));
    } else {
      next.degrees[rng.below(op.factors.size())] =
          static_cast<std::int32_t>(1 + rng.below(static_cast<std::uint64_t>(available)));
    }
    if (next.num_shards() <= available && !illegal_degrees(op, next.degrees)) config = next;
  }
  config.ring = !illegal_ring(op, config.degrees) && rng.below(2) == 0;
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < topology.num_devices(); ++d) devices.emplace_back(d);
  for (std::size_t i = devices.size(); i > 1 && rng.below(3) > 0; --i)
    std::swap(devices[i - 1], devices[rng.below(i)]);
  config.devices.assign(devices.begin(), devices.begin() + config.num_shards());
  return config;
}

Strategy random_strategy(const OperatorGraph& graph, const Topology& topology, const CandidateSet& candidates,
                         Rng& rng) {
  Strategy strategy;
  const std::uint64_t wild = rng.below(3);
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const bool any = wild == 0 || (wild == 1 && rng.below(2) == 0);
    strategy.push_back(any ? random_config(graph.operators()[i], topology, rng)
                           : candidates.random(OperatorId(i), rng));
  }
  return strategy;
}

TEST(LowerBound, NoRandomStrategyIsUnderIt) {
  for (const char* model : kBoundedModels) {
    const OperatorGraph graph = make_zoo_model(model);
    for (const char* name : kBoundedTopologies) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology);
      const CandidateSet candidates(graph, topology);
      Evaluator evaluator(graph, costs, {});
      const Nanoseconds bound = lower_bound(graph, costs, {});
      EXPECT_GT(bound, 0);
      for_each_seed(4, [&](Rng& rng) {
        const Strategy strategy = random_strategy(graph, topology, candidates, rng);
        ASSERT_EQ(illegal(graph, strategy, topology), std::nullopt);
        EXPECT_GE(evaluator.evaluate(strategy).time, bound) << model << " on " << name;
      });
    }
  }
}

// Each kind by itself, and results that come in blocks handed from one operator to the next.
OperatorGraph image_kinds() {
  Bench bench(4);
  bench.learned_inputs = true;
  add_image_kinds(bench, [&](const std::string& kind, const std::vector<TensorId>& inputs,
                             const Attributes& attributes = {}) { bench.op(kind, inputs, attributes); });
  GraphBuilder& b = bench.builder;
  TensorId x = b.data("image", {4, 3, 18, 16});
  x = b.add("conv2d", "down", {x}, {{"out", 8}, {"kernel", 3}, {"stride", 2}, {"pad", 1}});
  x = b.add("group_norm", "norm", {x}, {{"groups", 4}});
  x = b.add("conv_transpose2d", "up", {x}, {{"out", 8}, {"kernel", 4}, {"stride", 2}, {"pad", 1}});
  x = b.add("resize", "larger", {x}, {{"out", 24}, {"mode", "linear"}});
  x = b.add("conv_transpose2d", "again", {x}, {{"out", 4}, {"kernel", 1}, {"stride", 3}});
  x = b.add("adaptive_pool", "pool", {x}, {{"out", 9}});
  b.add("pool2d", "last", {x}, {{"mode", "avg"}, {"kernel", 3}, {"pad", 1}, {"exclude_pad", 1}});
  return b.build();
}

TEST(LowerBound, HoldsWhereResultsComeInBlocks) {
  const OperatorGraph graph = image_kinds();
  for (const char* name : kBoundedTopologies) {
    const Topology topology = make_topology(name);
    const CostModel costs(topology);
    const CandidateSet candidates(graph, topology);
    Evaluator evaluator(graph, costs, {});
    const Nanoseconds bound = lower_bound(graph, costs, {});
    EXPECT_GT(bound, 0);
    for_each_seed(8, [&](Rng& rng) {
      const Strategy strategy = random_strategy(graph, topology, candidates, rng);
      ASSERT_EQ(illegal(graph, strategy, topology), std::nullopt);
      EXPECT_GE(evaluator.evaluate(strategy).time, bound) << name;
    });
  }
}

TEST(LowerBound, HoldsForSeveralMicrobatches) {
  PlanOptions options;
  options.microbatches = 3;
  for (const char* model : kBoundedModels) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("p100-4x4:2");
    const CostModel costs(topology);
    const CandidateSet candidates(graph, topology);
    Evaluator evaluator(graph, costs, options);
    const LowerBound once = lower_bound_parts(graph, costs, {});
    const LowerBound thrice = lower_bound_parts(graph, costs, options);
    EXPECT_GT(thrice.work, 2 * once.work);
    EXPECT_LE(thrice.work, 3 * once.work + 1);
    for (const std::string_view baseline : baseline_names()) {
      EXPECT_GE(evaluator.evaluate(baseline_strategy(baseline, graph, costs)).time, thrice.time())
          << model << ", " << baseline;
    }
    for_each_seed(4, [&](Rng& rng) {
      EXPECT_GE(evaluator.evaluate(random_strategy(graph, topology, candidates, rng)).time, thrice.time())
          << model;
    });
  }
}

TEST(LowerBound, HoldsForEachOptimizer) {
  const OperatorGraph graph = make_zoo_model(
      "llama:batch=8,layers=2,hidden=64,heads=4,kv_heads=4,vocab=64,sequence=16,ffn=96,dtype=bfloat16");
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  const CandidateSet candidates(graph, topology);
  for (const OptimizerKind& kind : optimizer_kinds()) {
    PlanOptions options;
    options.optimizer = Optimizer(kind.kind);
    Evaluator evaluator(graph, costs, options);
    const Nanoseconds bound = lower_bound(graph, costs, options);
    EXPECT_GT(bound, 0);
    for_each_seed(8, [&](Rng& rng) {
      EXPECT_GE(evaluator.evaluate(random_strategy(graph, topology, candidates, rng)).time, bound)
          << kind.name;
    });
  }
}

TEST(LowerBound, CountsWhatIsRunAgain) {
  PlanOptions options;
  options.recompute.kind = Recompute::Kind::Full;
  for (const char* model : kBoundedModels) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("p100-4x4:2");
    const CostModel costs(topology);
    const CandidateSet candidates(graph, topology);
    Evaluator evaluator(graph, costs, options);
    const LowerBound kept = lower_bound_parts(graph, costs, {});
    const LowerBound again = lower_bound_parts(graph, costs, options);
    EXPECT_GT(again.work, kept.work) << model;
    EXPECT_LT(again.work, 2 * kept.work) << model;
    for (const std::string_view baseline : baseline_names()) {
      EXPECT_GE(evaluator.evaluate(baseline_strategy(baseline, graph, costs)).time, again.time())
          << model << ", " << baseline;
    }
    for_each_seed(3, [&](Rng& rng) {
      EXPECT_GE(evaluator.evaluate(random_strategy(graph, topology, candidates, rng)).time, again.time())
          << model;
    });
  }
}

// Two V100 and two K80: the best price of a device is not the same for all operators.
Topology mixed_topology() {
  TopologyParts parts = make_topology("levels:4@10GB/s").parts();
  parts.kinds.push_back(make_topology("k80-16x4").parts().kinds.front());
  parts.devices[2].kind = parts.devices[3].kind = 1;
  return Topology(std::move(parts));
}

TEST(LowerBound, HoldsForDevicesOfSeveralKinds) {
  const Topology topology = mixed_topology();
  const CostModel costs(topology);
  for (const char* model : kBoundedModels) {
    const OperatorGraph graph = make_zoo_model(model);
    const CandidateSet candidates(graph, topology);
    Evaluator evaluator(graph, costs, {});
    const Nanoseconds bound = lower_bound(graph, costs, {});
    for (const std::string_view baseline : baseline_names()) {
      EXPECT_GE(evaluator.evaluate(baseline_strategy(baseline, graph, costs)).time, bound)
          << model << ", " << baseline;
    }
    for_each_seed(4, [&](Rng& rng) {
      EXPECT_GE(evaluator.evaluate(random_strategy(graph, topology, candidates, rng)).time, bound) << model;
    });
  }
}

TEST(LowerBound, SlowDevicesAddTheirShareOfWork) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=16384,hidden=8192,layers=2");
  const Topology two = make_topology("levels:2@10GB/s"), mixed = mixed_topology();
  const LowerBound fast = lower_bound_parts(graph, CostModel(two), {});
  const LowerBound both = lower_bound_parts(graph, CostModel(mixed), {});
  EXPECT_LT(both.work, fast.work);
  EXPECT_GT(both.work, fast.work / 2);
}

TEST(LowerBound, NoBaselineIsUnderIt) {
  for (const char* model : kBoundedModels) {
    const OperatorGraph graph = make_zoo_model(model);
    for (const char* name : kBoundedTopologies) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology);
      Evaluator evaluator(graph, costs, {});
      const Nanoseconds bound = lower_bound(graph, costs, {});
      for (const std::string_view baseline : baseline_names()) {
        EXPECT_GE(evaluator.evaluate(baseline_strategy(baseline, graph, costs)).time, bound)
            << model << " on " << name << ", " << baseline;
      }
    }
  }
}

// On one device there is nothing but work: kernels one after the other.
TEST(LowerBound, IsTightOnOneDevice) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=8192,hidden=8192,features=8192,layers=2");
  const Topology topology = make_topology("levels:1@10GB/s");
  const CostModel costs(topology);
  Evaluator evaluator(graph, costs, {});
  const auto time =
      static_cast<double>(evaluator.evaluate(baseline_strategy("single-device", graph, costs)).time);
  EXPECT_GT(static_cast<double>(lower_bound(graph, costs, {})), 0.97 * time);
}

TEST(LowerBound, WorkShrinksWithDevicesAndTheChainDoesNot) {
  const OperatorGraph graph = make_zoo_model("mlp:batch=16384,hidden=8192,layers=2");
  Nanoseconds work = INT64_MAX;
  for (const char* name : {"levels:2@10GB/s", "levels:4@10GB/s", "levels:8@10GB/s"}) {
    const Topology topology = make_topology(name);
    const LowerBound bound = lower_bound_parts(graph, CostModel(topology), {});
    EXPECT_LT(bound.work, 0.6 * static_cast<double>(work));
    EXPECT_GT(bound.work, bound.chain);
    work = bound.work;
  }
}

// 100 small steps in a row: no number of devices helps beyond the launches.
TEST(LowerBound, RecurrentNetworksAreChains) {
  const OperatorGraph graph = make_zoo_model("rnnlm:batch=16,steps=50,hidden=64,vocab=100");
  const Topology topology = make_topology("p100-4x4");
  const LowerBound bound = lower_bound_parts(graph, CostModel(topology), {});
  EXPECT_GT(bound.chain, bound.work);
  EXPECT_EQ(bound.time(), std::max(bound.chain, bound.crossing));
  // A kernel for each step's cell forward, and one backward.
  const double launch = topology.kind(DeviceId(0)).launch_overhead.value * 1e9;
  EXPECT_GT(static_cast<double>(bound.chain), 2 * 50 * launch);
}

TEST(LowerBound, MeasuredOperatorsCountInProportion) {
  GraphBuilder b("profile", 16);
  TensorId x = b.data("x", {16, 10});
  for (const char* name : {"layer1", "layer2"}) {
    x = b.add(
        "profiled", name, {x},
        {{"forward_ms", 1.0}, {"backward_ms", 2.0}, {"activation_bytes", 1600}, {"parameter_bytes", 40}});
  }
  const OperatorGraph graph = b.build();
  const Topology topology = make_topology("levels:4@10GB/s");
  const CostModel costs(topology);
  const LowerBound bound = lower_bound_parts(graph, costs, {});
  EXPECT_NEAR(static_cast<double>(bound.work), 6e6 / 4, 1e4);
  EXPECT_NEAR(static_cast<double>(bound.chain), 6e6 / 4, 1e4);
}

// One shard cannot be smaller than what its factors allow, and the gradients of a split batch have to meet.
TEST(LowerBound, GradientsCrossWhereOnlySamplesCanBeSplit) {
  GraphBuilder b("profile", 16);
  const TensorId x = b.data("x", {16, 10});
  b.add("profiled", "layer", {x},
        {{"forward_ms", 1.0},
         {"backward_ms", 2.0},
         {"activation_bytes", 1600},
         {"parameter_bytes", 10'000'000}});
  const OperatorGraph graph = b.build();
  const Topology topology = make_topology("levels:4@10GB/s");
  const LowerBound bound = lower_bound_parts(graph, CostModel(topology), {});
  // 0.75 ms of compute, then 10 MB at 10 GB/s, then the update.
  EXPECT_GT(bound.crossing, 1'750'000 - 100);
  EXPECT_GT(bound.crossing, bound.chain);
}

TEST(LowerBoundPasses, SmallestShares) {
  const OperatorGraph graph = make_zoo_model("lenet");
  const Operator& conv = graph.operators()[0];
  // The factors are n = 64 and o = 6, and h = w = 28, which are cut unevenly: at worst into 15 pieces, the
  // smallest of which is 1 instead of 28/15.
  EXPECT_DOUBLE_EQ(smallest_share(conv, 16), 1.0 / 16 * (15.0 / 28) * (15.0 / 28));
  EXPECT_EQ(smallest_share(conv, 1), 1.0);
  EXPECT_EQ(smallest_share(conv, 16, [&](FactorIndex f) { return f == conv.factor("n"); }), 1.0 / 16);
  EXPECT_EQ(smallest_share(conv, 16, [&](FactorIndex f) { return f == conv.factor("o"); }), 1.0 / 6);
}

// Every shard of every split costs at least what the bound says of its share, and all together at least the
// total.
void check_shards(const OperatorGraph& graph) {
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  const PassBounds passes(graph, costs);
  for_each_seed(3, [&](Rng& rng) {
    for (const Operator& op : graph.operators()) {
      const ParallelConfig config = random_config(op, topology, rng);
      const ShardGrid grid(op, config);
      std::vector<Range> ranges;
      for (const Pass pass : {Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight}) {
        const double least = passes.shard(op, pass, smallest_share(op, passes.num_devices()));
        const PassCost total = passes.total(op, pass, DeviceId(0));
        double sum = 0;
        for (std::int64_t k = 0; k < grid.num_shards(); ++k) {
          grid.ranges(k, ranges);
          const double seconds = costs.operator_time(graph, op, pass, ranges, DeviceId(0)).value;
          EXPECT_GE(seconds, least * (1 - 1e-9)) << graph.name() << " " << op.name << " " << config.str(op);
          sum += seconds;
        }
        EXPECT_GE(sum, (total.overhead + total.work) * (1 - 1e-9))
            << graph.name() << " " << op.name << " " << config.str(op);
      }
    }
  });
}

TEST(LowerBoundPasses, NoShardIsUnderIt) {
  for (const char* model : kBoundedModels) check_shards(make_zoo_model(model));
  check_shards(image_kinds());
}

}  // namespace
}  // namespace pipesim
