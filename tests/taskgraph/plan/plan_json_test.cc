#include "taskgraph/plan/plan_json.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "models/graph_builder.h"
#include "sim/base/errors.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

OperatorGraph linears_and_loss() {
  GraphBuilder builder("two", 8);
  const TensorId x = builder.data("x", {8, 16});
  const TensorId h = builder.add("linear", "fc1", {x}, {{"out", std::int64_t{32}}});
  const TensorId y = builder.add("linear", "fc2", {h}, {{"out", std::int64_t{4}}});
  builder.add("cross_entropy", "loss", {y, builder.data("labels", {8}, DataType::Int64)});
  return builder.build();
}

class PlanJson : public ::testing::Test {
 protected:
  // A plan whose config of fc1 is `config`, the others on one device.
  [[nodiscard]] std::string text(const std::string& config, const std::string& head = "") const {
    return R"({"pipesim_plan": 1, "model": "two", "topology": "p100-4x4:1", )" + head + R"("configs": [)" +
           config +
           R"(, {"operator": "fc2", "devices": ["gpu0"]}, {"operator": "loss", "devices": ["gpu0"]}]})";
  }
  [[nodiscard]] Plan read(const std::string& json) const {
    return PlanFile::parse(json, "p.json").read(graph_, topology_);
  }
  [[nodiscard]] std::string message(const std::string& json) const {
    try {
      (void)read(json);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
  OperatorGraph graph_ = linears_and_loss();
  Topology topology_ = make_topology("p100-4x4:1");
};

TEST_F(PlanJson, HoldsHowStateIsDivided) {
  const std::string all = R"({"operator": "fc1", "split": [["b", 4]], "devices": "all"})";
  const Plan plan = read(text(all, R"("state_sharding": "zero3,shard=2", )"));
  EXPECT_EQ(plan.options.state_sharding, parse_state_sharding("zero3,shard=2"));
  EXPECT_EQ(read(to_json(plan, graph_, topology_)), plan);
  const Plan typed = read(text(all, R"("state_sharding": "zero1,gather=float32,overlap=gather", )"));
  EXPECT_TRUE(typed.options.state_sharding.wide_gathers && typed.options.state_sharding.overlaps_gather);
  EXPECT_EQ(read(to_json(typed, graph_, topology_)), typed);
  EXPECT_THAT(
      message(text(all, R"("state_sharding": "zero9", )")),
      testing::HasSubstr("p.json: /state_sharding: state sharding \"zero9\": \"zero9\": allowed: zero"));
}

TEST_F(PlanJson, HoldsWhetherInputsAreGatheredAgain) {
  const std::string all = R"({"operator": "fc1", "split": [["b", 4]], "devices": "all"})";
  const Plan plan = read(text(all, R"("gathered_inputs": "again", )"));
  EXPECT_EQ(plan.options.gathered_inputs, GatheredInputs::Again);
  EXPECT_EQ(read(to_json(plan, graph_, topology_)), plan);
  EXPECT_EQ(read(text(all)).options.gathered_inputs, GatheredInputs::Keep);
  EXPECT_EQ(message(text(all, R"("gathered_inputs": "drop", )")),
            "p.json: /gathered_inputs: gathered inputs \"drop\", allowed: keep, again");
}

TEST_F(PlanJson, SaysWhatRunsThePlan) {
  const std::string all = R"({"operator": "fc1", "split": [["b", 4]], "devices": "all"})";
  const Plan plan = read(text(all, R"("runtime": "megatron:module=50us", )"));
  EXPECT_EQ(plan.runtime, parse_runtime("megatron:module=50us"));
  EXPECT_EQ(read(to_json(plan, graph_, topology_)), plan);
  EXPECT_EQ(read(text(all)).runtime, Runtime());
  EXPECT_THAT(message(text(all, R"("runtime": "megatrom", )")),
              testing::HasSubstr("p.json: /runtime: unknown runtime \"megatrom\" (did you mean"));
}

TEST_F(PlanJson, HoldsWhatDevicesDoDuringMessages) {
  Plan plan = read(text(R"({"operator": "fc1", "split": [["b", 4]], "devices": "all"})"));
  plan.options.pipeline = Pipeline{"1f1b", std::vector<std::int32_t>(graph_.operators().size(), 0)};
  for (const auto messages : {StageMessages::Beside, StageMessages::Blocking}) {
    plan.options.pipeline->messages = messages;
    EXPECT_EQ(read(to_json(plan, graph_, topology_)), plan);
  }
  const std::string all = R"({"operator": "fc1", "split": [["b", 4]], "devices": "all"})";
  EXPECT_EQ(message(text(all, R"("messages": "beside", )")),
            "p.json: /messages: messages go between \"stages\"");
  std::string late = to_json(plan, graph_, topology_);
  late.replace(late.find("\"blocking\""), 10, "\"late\"");
  EXPECT_EQ(message(late), "p.json: /messages: messages \"late\", allowed: beside, blocking");
}

TEST_F(PlanJson, HoldsWhenGradientsAreReduced) {
  const std::string all = R"({"operator": "fc1", "split": [["b", 4]], "devices": "all"})";
  const Plan plan = read(text(all, R"("gradient_reduction": "after-steps", )"));
  EXPECT_EQ(plan.options.gradient_reduction, GradientReduction::AfterSteps);
  EXPECT_EQ(read(to_json(plan, graph_, topology_)), plan);
  EXPECT_EQ(read(text(all)).options.gradient_reduction, GradientReduction::Overlapped);
  EXPECT_EQ(message(text(all, R"("gradient_reduction": "late", )")),
            "p.json: /gradient_reduction: gradient reduction \"late\", allowed: overlapped, after-steps");
}

TEST_F(PlanJson, SplitsAreReadSlowestFirst) {
  // The file has o slower than b. Shards are numbered with b slower, as the operator lists its factors.
  const Plan plan = read(text(
      R"({"operator": "fc1", "split": [["o", 2], ["b", 2]], "devices": ["gpu0", "gpu1", "gpu2", "gpu3"]})"));
  const ParallelConfig& config = plan.strategy[0];
  EXPECT_EQ(config.devices, (std::vector<DeviceId>{DeviceId(0), DeviceId(2), DeviceId(1), DeviceId(3)}));
}

TEST_F(PlanJson, DeviceListsMayBeRangesOrAll) {
  const Plan a = read(text(R"({"operator": "fc1", "split": [["b", 4]], "devices": ["gpu0..gpu3"]})"));
  const Plan b = read(text(R"({"operator": "fc1", "split": [["b", 4]], "devices": "all"})"));
  const Plan c =
      read(text(R"({"operator": "fc1", "split": [["b", 4]], "devices": ["gpu0", "gpu1", "gpu2", "gpu3"]})"));
  EXPECT_EQ(a, b);
  EXPECT_EQ(a, c);
}

TEST_F(PlanJson, RandomPlansRoundTrip) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Plan plan{"two", "p100-4x4:1", graph_.fingerprint(), topology_.fingerprint(), {}, "mcmc", seed, {}};
    plan.options.optimizer = parse_optimizer(seed % 2 == 0 ? "adam" : "adam,moments=bfloat16,main=none");
    plan.options.microbatches = static_cast<std::int32_t>(1 + rng.below(4));
    plan.strategy = random_strategy(graph_, rng, 4, 4);
    const std::string json = to_json(plan, graph_, topology_);
    EXPECT_EQ(read(json), plan);
    EXPECT_EQ(to_json(read(json), graph_, topology_), json);
  }
}

TEST_F(PlanJson, HoldsRings) {
  GraphBuilder b("ring", 2);
  const TensorId q = b.data("q", {2, 8, 2, 1, 4}), k = b.data("k", {2, 8, 2, 4});
  b.add("attention", "mix", {q, k, k});
  const OperatorGraph graph = b.build();
  const auto read = [&](const std::string& config) {
    return PlanFile::parse(R"({"pipesim_plan": 2, "model": "ring", "topology": "p100-4x4:1", "configs": [)" +
                               config + "]}",
                           "p.json")
        .read(graph, topology_);
  };
  const std::string split = R"({"operator": "mix", "split": [["s", 4]], "ring": true, "devices": "all"})";
  const Plan plan = read(split);
  EXPECT_TRUE(plan.strategy[0].ring);
  const std::string json = to_json(plan, graph, topology_);
  EXPECT_THAT(json, testing::HasSubstr("\"ring\":true"));
  EXPECT_EQ(PlanFile::parse(json, "p.json").read(graph, topology_), plan);
  EXPECT_EQ(refusal([&] { (void)read(R"({"operator": "mix", "ring": true, "devices": ["gpu0"]})"); }),
            "p.json: /configs/0: operator \"mix\": a ring, allowed: where factor s is split");
}

TEST_F(PlanJson, RefusesWithPlaceAndReason) {
  EXPECT_EQ(
      message(text(R"({"operator": "fc1", "split": [["b", 2]], "devices": ["gpu0", "gpu9"]})")).substr(0, 51),
      "p.json: /configs/0/devices/1: unknown device \"gpu9\"");
  EXPECT_EQ(message(text(R"({"operator": "fc1", "split": [["b", 3]], "devices": ["gpu0..gpu2"]})")),
            "p.json: /configs/0: operator \"fc1\": degree 3 does not divide factor b of size 8");
  EXPECT_EQ(message(text(R"({"operator": "fc1", "split": [["b", 8]], "devices": "all"})")),
            "p.json: /configs/0: operator \"fc1\": more shards than the 4 devices");
  EXPECT_EQ(message(text(R"({"operator": "fc1", "split": [["b", 2]], "devices": ["gpu1", "gpu1"]})")),
            "p.json: /configs/0: operator \"fc1\": device gpu1 is listed twice");
  EXPECT_EQ(message(text(R"({"operator": "fc1", "split": [["q", 2]], "devices": ["gpu0..gpu1"]})")),
            "p.json: /configs/0/split/0/0: operator \"fc1\" has no factor \"q\"; it has b, i, o");
  EXPECT_EQ(message(text(R"({"operator": "fc7", "devices": ["gpu0"]})")),
            "p.json: /configs/0/operator: model \"two\" has no operator \"fc7\" (did you mean \"fc1\"?)");
  EXPECT_EQ(message(text(R"({"operator": "fc2", "devices": ["gpu0"]})")),
            "p.json: /configs/1/operator: operator \"fc2\" has two configs");
  EXPECT_EQ(message(text(R"({"operator": "fc1", "device": ["gpu0"]})")),
            "p.json: /configs/0/device: unknown key \"device\" (did you mean \"devices\"?); allowed: "
            "operator, split, "
            "replicas, ring, devices");
  EXPECT_EQ(message(R"({"pipesim_plan": 7})"),
            "p.json: /pipesim_plan: version 7; this pipesim reads versions 1 and 2");
}

TEST_F(PlanJson, ServesOtherTopologiesWithTheSameDevices) {
  const std::string all = text(R"({"operator": "fc1", "split": [["b", 4]], "devices": "all"})",
                               R"("topology_fingerprint": "0", )");
  // A node of four devices, and three nodes of it.
  const Topology one = make_topology("levels:4@10GB/s"), three = make_topology("levels:4@10GB/s,3@1GB/s");
  const Plan plan = PlanFile::parse(all, "p.json").read(graph_, one);
  EXPECT_EQ(plan.strategy, read(all).strategy);
  EXPECT_EQ(plan.topology_fingerprint, "0");
  const auto moved = [&](const std::string& json, const Topology& to, const Topology& own) {
    return refusal([&] { (void)PlanFile::parse(json, "p.json").read(graph_, to, own); });
  };
  EXPECT_EQ(moved(all, three, one),
            "p.json: /configs: the plan uses 4 devices of \"levels:4@10GB/s\", but topology "
            "\"levels:4@10GB/s,3@1GB/s\" lacks 4: gpu0..gpu3; it has node0.gpu0..node2.gpu3");
  const std::string some =
      R"({"pipesim_plan": 1, "model": "two", "topology": "levels:4@10GB/s,3@1GB/s", "configs": [
    {"operator": "fc1", "split": [["b", 4]], "devices": ["node0.gpu2..node1.gpu1"]},
    {"operator": "fc2", "devices": ["node2.gpu0"]}, {"operator": "loss", "devices": ["node1.gpu0"]}]})";
  const Topology two = make_topology("levels:4@10GB/s,2@1GB/s"),
                 wide = make_topology("levels:8@10GB/s,3@1GB/s");
  EXPECT_EQ(moved(some, two, three),
            "p.json: /configs: the plan uses 5 devices of \"levels:4@10GB/s,3@1GB/s\", but topology "
            "\"levels:4@10GB/s,2@1GB/s\" lacks 1: node2.gpu0; it has node0.gpu0..node1.gpu3");
  // The range means the devices of the plan's own topology, whatever stands between them in the other.
  const Plan there = PlanFile::parse(some, "p.json").read(graph_, wide, three);
  EXPECT_EQ(there.strategy[0].devices,
            (std::vector<DeviceId>{wide.device_named("node0.gpu2"), wide.device_named("node0.gpu3"),
                                   wide.device_named("node1.gpu0"), wide.device_named("node1.gpu1")}));
}

TEST_F(PlanJson, MicrobatchesAreOneUnlessTheFileSaysOtherwise) {
  const std::string config = R"({"operator": "fc1", "devices": ["gpu0"]})";
  const auto with = [&](const std::string& value) {
    return text(config, "\"microbatches\": " + value + ", ");
  };
  EXPECT_EQ(read(text(config)).options.microbatches, 1);
  EXPECT_EQ(read(with("1048576")).options.microbatches, 1'048'576);
  EXPECT_EQ(to_json(read(with("1")), graph_, topology_).find("microbatches"), std::string::npos);
  EXPECT_NE(to_json(read(with("7")), graph_, topology_).find("\"microbatches\": 7,\n"), std::string::npos);
  for (const char* number : {"0", "-1", "1048577"}) {
    EXPECT_EQ(message(with(number)), std::string("p.json: /microbatches: found ") + number +
                                         ", an integer from 1 to 1048576 is needed");
  }
  EXPECT_EQ(message(with("\"two\"")),
            "p.json: /microbatches: found \"two\", an integer from 1 to 1048576 is needed");
  EXPECT_EQ(message(with("1.5")), "p.json: /microbatches: found 1.5, an integer from 1 to 1048576 is needed");
}

TEST_F(PlanJson, RandomPipelinesRoundTrip) {
  for_each_seed(30, [&](Rng& rng) {
    RandomPipeline p =
        rng.below(2) == 0 ? random_pipeline(graph_, rng, topology_) : random_replicas(graph_, rng, topology_);
    Plan plan;
    plan.model = "two", plan.topology = "p100-4x4:1";
    plan.strategy = std::move(p.strategy);
    plan.options = std::move(p.options);
    EXPECT_EQ(read(to_json(plan, graph_, topology_)), plan);
  });
}

TEST_F(PlanJson, StagesAreListsOfOperatorsOrRanges) {
  const std::string fc1 = R"({"operator": "fc1", "devices": ["gpu1"]})";
  const auto stages = [&](const std::string& list, const std::string& more = "") {
    return text(fc1, R"("stages": )" + list + ", " + more);
  };
  const Plan plan = read(stages(R"([["fc1"], ["fc2..loss"]])", R"("schedule": "gpipe", )"));
  ASSERT_TRUE(plan.options.pipeline);
  EXPECT_EQ(*plan.options.pipeline, (Pipeline{"gpipe", {0, 1, 1}}));
  EXPECT_EQ(read(stages(R"([["fc1"], ["loss", "fc2"]])")).options.pipeline->schedule, "1f1b");
  EXPECT_NE(to_json(plan, graph_, topology_).find(R"(["fc2..loss"])"), std::string::npos);

  EXPECT_EQ(message(stages(R"([["fc1", "fc2"], ["fc2..loss"]])")),
            "p.json: /stages/1/0: operator \"fc2\" is in stage 0 and in stage 1");
  EXPECT_EQ(message(stages(R"([["fc1"], ["loss"]])")), "p.json: /stages: operator \"fc2\" is in no stage");
  EXPECT_EQ(message(stages(R"([["fc1"], ["fc3..loss"]])")),
            "p.json: /stages/1/0: model \"two\" has no operator \"fc3\" (did you mean \"fc1\"?)");
  EXPECT_EQ(message(stages(R"([["fc1"], ["loss..fc2"]])")),
            "p.json: /stages/1/0: the range \"loss..fc2\" runs backwards");
  EXPECT_EQ(message(stages(R"([["fc1", "loss"], ["fc2"]])")),
            "p.json: /stages: pipeline: operator \"loss\" of stage 0 reads \"fc2\", which operator \"fc2\" "
            "makes in "
            "stage 1; data must not go back to an earlier stage");
  EXPECT_EQ(message(stages(R"([["fc1"], ["fc2..loss"], []])")),
            "p.json: /stages/2: a stage without operators");
  EXPECT_EQ(message(stages(R"([["fc1"], ["fc2..loss"]])", R"("schedule": "1f2b", )")),
            "p.json: /schedule: schedule \"1f2b\": unknown (did you mean \"1f1b\"?), allowed: gpipe, 1f1b, "
            "eager-1f1b, interleaved, interleaved-groups:GROUP, interleaved-beside:GROUP, zb-h1, zb-h2, "
            "zb-auto:LIMIT, zb-v, "
            "dualpipe-v, pipedream, "
            "pipedream-vertical-sync, 2bw, "
            "chimera, dualpipe, inference");
  EXPECT_EQ(message(stages(R"([["fc1"], ["fc2..loss"]])", R"("schedule": "zb-auto:few", )")),
            "p.json: /schedule: schedule \"zb-auto:few\": found the number \"few\", allowed: zb-auto:LIMIT "
            "with the most microbatches that a device may hold, a whole number from 1, like zb-auto:8");
  EXPECT_EQ(message(text(fc1, R"("schedule": "1f1b", )")), "p.json: /schedule: a schedule needs \"stages\"");
}

TEST_F(PlanJson, ReplicasAreANumberOfEachStage) {
  const auto with = [&](const std::string& more) {
    return text(R"({"operator": "fc1", "replicas": 2, "devices": ["gpu2..gpu3"]})", more);
  };
  const std::string stages = R"("schedule": "pipedream", "stages": [["fc1"], ["fc2..loss"]], )";
  const Plan plan = read(with(stages + R"("replicas": [2, 1], )"));
  EXPECT_EQ(*plan.options.pipeline, (Pipeline{"pipedream", {0, 1, 1}, {2, 1}}));
  EXPECT_NE(to_json(plan, graph_, topology_).find("\"replicas\": [2,1],\n"), std::string::npos);
  EXPECT_EQ(message(with(stages + R"("replicas": [2], )")),
            "p.json: /replicas: found 1 number for 2 stages; each stage needs one");
  EXPECT_EQ(message(with(stages + R"("replicas": [2, 0], )")),
            "p.json: /replicas/1: found 0, an integer from 1 to 128 is needed");
  EXPECT_EQ(message(with(R"("replicas": [2, 1], )")),
            "p.json: /replicas: replicas that take microbatches in turn need \"stages\"");
  EXPECT_EQ(
      message(with(stages + R"("replicas": [1, 2], )")),
      "p.json: /stages: pipeline: operator \"fc2\" of stage 1 has 1 copy, but the stage 2 replicas, each of "
      "which needs one or more");
}

TEST_F(PlanJson, RecomputeIsAWordOrAListOfSegments) {
  const std::string fc1 = R"({"operator": "fc1", "devices": ["gpu0"]})";
  const auto with = [&](const std::string& value, const std::string& more = "") {
    return text(fc1, R"("recompute": )" + value + ", " + more);
  };
  const auto segments = [&](const std::string& value) {
    return read(with(value)).options.recompute.segment_of;
  };
  using Segments = std::vector<std::int32_t>;
  EXPECT_EQ(read(text(fc1)).options.recompute, Recompute());
  EXPECT_EQ(read(with(R"("none")")).options.recompute, Recompute());
  EXPECT_EQ(read(with(R"("full")")).options.recompute, (Recompute{Recompute::Kind::Full, {}}));
  EXPECT_EQ(segments(R"(["fc1", "fc2..loss"])"), (Segments{0, 1, 1}));
  EXPECT_EQ(segments(R"([["fc1", "loss"], ["fc2"]])"), (Segments{0, 1, 0}));
  EXPECT_EQ(segments(R"(["fc2"])"), (Segments{-1, 0, -1}));

  EXPECT_EQ(to_json(read(with(R"("none")")), graph_, topology_).find("recompute"), std::string::npos);
  EXPECT_NE(to_json(read(with(R"("full")")), graph_, topology_).find(R"("recompute": "full")"),
            std::string::npos);
  EXPECT_NE(to_json(read(with(R"([["loss", "fc1"], "fc2"])")), graph_, topology_)
                .find("\"recompute\": [\n    [\"fc1\",\"loss\"],\n    \"fc2\"\n  ]"),
            std::string::npos);
  for (const char* value : {R"("full")", R"(["fc1", "fc2..loss"])", R"([["fc1", "loss"], "fc2"])"}) {
    const Plan plan = read(with(value));
    EXPECT_EQ(read(to_json(plan, graph_, topology_)), plan) << value;
  }

  EXPECT_EQ(message(with(R"("ful")")),
            "p.json: /recompute: recompute \"ful\": unknown (did you mean \"full\"?), allowed: " +
                recompute_forms());
  EXPECT_EQ(message(with(R"("selective")")),
            "p.json: /recompute: selective runs attention again, and model \"two\" has none");
  EXPECT_EQ(message(with(R"("stage")")),
            "p.json: /recompute: stage keeps the inputs of a pipeline's stages, and there is no pipeline");
  EXPECT_EQ(message(with("[]")), "p.json: /recompute: found no segment; leave it out to run nothing again");
  EXPECT_EQ(message(with(R"(["fc1", []])")), "p.json: /recompute/1: a segment without operators");
  EXPECT_EQ(message(with(R"(["fc1..fc2", ["loss", "fc2"]])")),
            "p.json: /recompute/1/1: operator \"fc2\" is in segment 0 and in segment 1");
  EXPECT_EQ(message(with(R"(["fc3"])")),
            "p.json: /recompute/0: model \"two\" has no operator \"fc3\" (did you mean \"fc1\"?)");
  EXPECT_EQ(message(with(R"(["fc1..fc2"])", R"("stages": [["fc1"], ["fc2..loss"]], )")),
            "p.json: /recompute: operators \"fc1\" of stage 0 and \"fc2\" of stage 1 are in one segment; a "
            "segment lies in one stage");
}

TEST_F(PlanJson, EveryOperatorNeedsAConfig) {
  EXPECT_EQ(message(R"({"pipesim_plan": 1, "model": "two", "topology": "t", "configs": []})"),
            "p.json: /configs: operator \"fc1\" has no config");
}

}  // namespace
}  // namespace pipesim
