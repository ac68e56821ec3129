#include "search/pipelines/all_pipelines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <numeric>

#include "models/import_profile.h"
#include "search/alpa/alpa.h"
#include "search/alpa/submeshes.h"
#include "search/joint/joint_moves.h"
#include "search/planners/dapple.h"
#include "search/planners/gpipe.h"
#include "search/planners/machine_levels.h"
#include "search/planners/pipeline_trials.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// A measured chain of layers; `data`: they have outputs and parameters.
std::string random_profile(Rng& rng, std::int64_t layers, bool data) {
  std::string text;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::int64_t forward = rng.between(1, 20);
    text += fmt::format(
        "node{} -- Layer{} -- forward_compute_time={}, backward_compute_time={}, activation_size={}, "
        "parameter_size={}\n",
        i, i, forward, data ? rng.between(1, 40) : 2 * forward, data ? rng.between(1, 40'000'000) : 8,
        data ? rng.between(0, 60'000'000) : 0);
  }
  for (std::int64_t i = 1; i < layers; ++i) text += fmt::format("\tnode{} -- node{}\n", i - 1, i);
  return text;
}

// A chain on a small topology, and what is best there.
class SmallCase {
 public:
  SmallCase(const std::string& profile, Topology system, std::int64_t batch, std::int32_t microbatches)
      : graph(import_profile(profile, "chain", batch, batch)), topology(std::move(system)) {
    options.microbatches = microbatches;
    space.layer_of.resize(graph.operators().size());
    std::iota(space.layer_of.begin(), space.layer_of.end(), 0);
    space.schedules = plan_schedules();
  }
  static SmallCase random(Rng& rng, bool data) {
    constexpr std::array<const char*, 5> kSmallSystems{"levels:2@1GB/s", "levels:3@2GB/s@3us",
                                                       "levels:4@1GB/s", "levels:2@10GB/s,2@1GB/s",
                                                       "levels:1@1GB/s,3@1GB/s@5us"};
    const std::string profile = random_profile(rng, rng.between(2, 4), data);
    Topology system = make_topology(kSmallSystems[rng.below(kSmallSystems.size())]);
    const std::int64_t batch = rng.between(1, 4);
    return {profile, std::move(system), batch, static_cast<std::int32_t>(rng.between(1, 5))};
  }
  [[nodiscard]] PipelineOptimum best(LeaveOut leave_out = LeaveOut::ByBounds) const {
    return best_pipeline(graph, costs, options, space, Placements(topology), leave_out, {});
  }
  // Nothing when it is illegal or does not fit.
  [[nodiscard]] std::optional<Nanoseconds> time_of(const PipelinedStrategy& made) const {
    PlanOptions piped = options;
    piped.pipeline = made.pipeline;
    if (illegal(graph, made.strategy, piped, topology)) return std::nullopt;
    const Evaluation evaluation = Evaluator(graph, costs, piped).evaluate(made.strategy);
    return evaluation.feasible() ? std::optional(evaluation.time) : std::nullopt;
  }
  // The fastest schedule of stages of operators in order.
  [[nodiscard]] Nanoseconds time_of(const std::vector<std::int32_t>& last_layers,
                                    const std::vector<StageMesh>& meshes) const {
    Nanoseconds best = INT64_MAX;
    for (const std::string& schedule : space.schedules) {
      const Pipeline pipeline{schedule, stages_of_layers(space.layer_of, last_layers)};
      best = std::min(best, time_of(staged_strategy(graph, topology, pipeline, meshes)).value_or(INT64_MAX));
    }
    return best;
  }

  OperatorGraph graph;
  Topology topology;
  CostModel costs{topology};
  PlanOptions options;
  PipelineSpace space;
};

Nanoseconds time_of_gpipe(const SmallCase& c) {
  const std::vector<PipelineTrial> trials = try_pipelines(c.graph, c.costs, c.options, c.space.schedules, {});
  return trials.front().evaluation.feasible() ? trials.front().evaluation.time : INT64_MAX;
}

Nanoseconds time_of_pipedream(const SmallCase& c, bool straight) {
  const LayerGraph layers = layers_of(c.graph, c.costs, DeviceId(0));
  PipeDreamOptions options;
  options.repaired = true;
  options.activation_compression = 1;
  options.fewer_machines = options.straight = straight;
  const auto plan = pipedream(*cuts_of(layers, 1000), machine_levels(c.topology), options);
  if (!plan) return INT64_MAX;
  std::vector<std::int32_t> last_layers;
  std::vector<StageMesh> meshes;
  for (const PipelineStage& stage : plan->stages) {
    last_layers.push_back(stage.layers.back());
    meshes.push_back({{}, 1});
    for (const std::int64_t d : stage.devices)
      meshes.back().devices.emplace_back(static_cast<std::size_t>(d));
  }
  return c.time_of(last_layers, meshes);
}

// The best of every number of stages, of one copy: the samples of a microbatch are the model's.
Nanoseconds time_of_dapple(const SmallCase& c) {
  const LayerGraph layers = layers_of(c.graph, c.costs, DeviceId(0));
  DappleProblem problem{
      &layers, c.graph.batch(), {}, c.graph.batch() * c.options.microbatches, c.graph.batch()};
  for (std::size_t d = 0; d < c.topology.num_devices(); ++d)
    problem.server_of.push_back(c.topology.device(DeviceId(d)).node);
  Nanoseconds best = INT64_MAX;
  for (const DapplePlan& plan :
       dapple(problem, {1, static_cast<std::int32_t>(layers.size()), Seconds(1e9), 0, 0, true})) {
    std::vector<std::int32_t> last_layers;
    std::vector<StageMesh> meshes;
    for (const DappleStage& stage : plan.stages) {
      last_layers.push_back(stage.last);
      meshes.push_back({stage.devices, 1});
    }
    best = std::min(best, c.time_of(last_layers, meshes));
  }
  return best;
}

Nanoseconds time_of_alpa(const SmallCase& c) {
  const auto clusters = static_cast<std::int32_t>(c.graph.operators().size());
  const auto plan = alpa(c.graph, c.costs, c.options, clusters, [](std::int64_t) {});
  if (plan.empty()) return INT64_MAX;
  std::vector<std::int64_t> sizes;
  std::vector<std::int32_t> last_layers;
  for (const std::size_t number : plan.front().partition.stages) {
    sizes.push_back(plan.front().options[number].devices);
    last_layers.push_back(plan.front().options[number].last);
  }
  std::vector<StageMesh> meshes;
  const std::vector<StageGroup> groups = place_submeshes(c.topology, sizes);
  for (std::size_t s = 0; s < groups.size(); ++s)
    meshes.push_back({groups[s], plan.front().options[plan.front().partition.stages[s]].config});
  return c.time_of(last_layers, meshes);
}

TEST(BestPipeline, NoPlannerFindsABetterOne) {
  std::array<int, 4> reached{};
  for_each_seed(40, [&](Rng& rng) {
    const SmallCase c = SmallCase::random(rng, true);
    const PipelineOptimum optimum = c.best();
    ASSERT_TRUE(optimum.best);
    EXPECT_EQ(c.time_of(optimum.best->plan), optimum.best->evaluation.time);
    const std::array times{time_of_gpipe(c), time_of_pipedream(c, false), time_of_dapple(c), time_of_alpa(c)};
    for (std::size_t i = 0; i < times.size(); ++i) {
      EXPECT_LE(optimum.best->evaluation.time, times[i]) << "planner " << i << " on " << c.topology.name();
      if (times[i] == optimum.best->evaluation.time) ++reached[i];
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_THAT(reached, testing::Each(testing::Gt(0)));
}

// Whatever the moves of the joint search make of it, as far as it is in the space: devices of a group in
// order, every operator split as its stage.
TEST(BestPipeline, NoMoveOfTheJointSearchFindsABetterOne) {
  constexpr std::array kMoves{JointMoveKind::Boundary, JointMoveKind::Merge,  JointMoveKind::Split,
                              JointMoveKind::Replicas, JointMoveKind::Tensor, JointMoveKind::Schedule,
                              JointMoveKind::Exchange};
  int looked_at = 0, reached = 0;
  for_each_seed(24, [&](Rng& rng) {
    const SmallCase c = SmallCase::random(rng, true);
    const Nanoseconds optimum = c.best().best->evaluation.time;
    const CandidateSet candidates(c.graph, c.topology);
    const JointMoves moves(candidates, 1);
    PipelinedStrategy made = gpipe_strategy(c.graph, c.costs, {1, 1, "1f1b"});
    JointPlan plan{{}, c.options.microbatches, made.pipeline, made.meshes, {}};
    Nanoseconds time = c.time_of(made).value(), best = time;
    for (int step = 0; step < 60; ++step) {
      auto next = moves.propose(plan, kMoves[rng.below(kMoves.size())], rng);
      if (!next) continue;
      for (StageMesh& mesh : next->meshes) std::ranges::sort(mesh.devices);
      made = staged_strategy(c.graph, c.topology, next->pipeline, next->meshes);
      const auto found = c.time_of(made);
      if (!found) continue;
      ++looked_at;
      EXPECT_LE(optimum, *found);
      best = std::min(best, *found);
      if (*found <= time || rng.below(4) == 0) plan = *next, time = *found;
    }
    if (best == optimum) ++reached;
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_THAT(looked_at, testing::Gt(50));
  EXPECT_THAT(reached, testing::Gt(0));
}

// Next to no data to send, one sample, and backward twice as long as forward: under gpipe an iteration of
// stages on single devices takes the sum of all layers and (microbatches − 1) times the longest stage. That
// is what Alpa's, DAPPLE's and PipeDream's objectives and GPipe's balance minimise. None of them is exact
// where data take time or stages are replicated.
TEST(BestPipeline, PlannersFindItWhereTheirModelsAreExact) {
  for_each_seed(30, [&](Rng& rng) {
    const auto devices = static_cast<std::int32_t>(rng.between(2, 4));
    SmallCase c(random_profile(rng, devices + rng.between(0, 2), false),
                make_topology(fmt::format("levels:{}@1000GB/s", devices)), 1,
                static_cast<std::int32_t>(rng.between(1, 5)));
    c.space.schedules = {"gpipe"};
    const Nanoseconds optimum = c.best().best->evaluation.time;
    // A boundary between stages costs 6.6 us, a layer at least 3 ms.
    constexpr Nanoseconds kTransfers = 100'000;
    for (const Nanoseconds time : {time_of_pipedream(c, true), time_of_dapple(c), time_of_alpa(c)})
      EXPECT_THAT(time, testing::AllOf(testing::Ge(optimum), testing::Le(optimum + kTransfers)));
    c.space.stages = devices;
    EXPECT_EQ(c.best().best->evaluation.time,
              c.time_of(gpipe_strategy(c.graph, c.costs, {devices, 1, "gpipe"})));
  });
}

TEST(BestPipeline, BoundsLeaveOutNoneThatIsBetter) {
  std::int64_t simulated = 0, all = 0;
  for_each_seed(30, [&](Rng& rng) {
    const SmallCase c = SmallCase::random(rng, true);
    const PipelineOptimum quick = c.best(), whole = c.best(LeaveOut::Nothing);
    ASSERT_TRUE(quick.best && whole.best);
    EXPECT_EQ(quick.best->evaluation, whole.best->evaluation);
    EXPECT_EQ(quick.best->plan.strategy, whole.best->plan.strategy);
    EXPECT_EQ(quick.best->plan.pipeline, whole.best->plan.pipeline);
    EXPECT_EQ(quick.pipelines, whole.pipelines);
    EXPECT_EQ(number_of_pipelines(c.space, Placements(c.topology), c.options.microbatches, 1e9),
              static_cast<double>(whole.pipelines));
    simulated += quick.simulated;
    all += whole.simulated;
    EXPECT_LE(whole.simulated, whole.pipelines);
  });
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_LT(simulated, all * 3 / 4);
}

TEST(BestPipeline, BoundsHoldWhereStateIsDivided) {
  for_each_seed(20, [&](Rng& rng) {
    SmallCase c = SmallCase::random(rng, true);
    c.options.state_sharding = random_state_sharding(rng);
    const PipelineOptimum quick = c.best(), whole = c.best(LeaveOut::Nothing);
    SCOPED_TRACE(c.options.state_sharding.str());
    ASSERT_TRUE(quick.best && whole.best);
    EXPECT_EQ(quick.best->evaluation, whole.best->evaluation);
    EXPECT_EQ(quick.best->plan.strategy, whole.best->plan.strategy);
    EXPECT_EQ(c.time_of(quick.best->plan), quick.best->evaluation.time);
  });
}

// Schedules that a search tries only when it is asked: forward alone, and weights that change on the way.
TEST(BestPipeline, BoundsHoldForOtherSchedules) {
  std::map<std::string, std::int32_t> planned;
  for (const char* schedule : {"inference", "pipedream", "chimera", "zb-v"}) {
    for_each_seed(8, [&](Rng& rng) {
      SmallCase c = SmallCase::random(rng, true);
      c.space.schedules = {schedule};
      const PipelineOptimum quick = c.best(), whole = c.best(LeaveOut::Nothing);
      ASSERT_EQ(quick.best.has_value(), whole.best.has_value()) << schedule;
      if (!whole.best) return;  // chimera needs an even number of stages
      ++planned[schedule];
      EXPECT_EQ(quick.best->evaluation, whole.best->evaluation) << schedule;
      EXPECT_LE(quick.simulated, whole.simulated);
    });
    EXPECT_GT(planned[schedule], 0) << schedule;
  }
}

// What fits decides, not what is fast.
TEST(BestPipeline, FitsIntoMemory) {
  const SmallCase roomy(
      "node0 -- A -- forward_compute_time=3, backward_compute_time=6, activation_size=1000000, "
      "parameter_size=100000000\n"
      "node1 -- B -- forward_compute_time=3, backward_compute_time=6, activation_size=1000000, "
      "parameter_size=100000000\n"
      "\tnode0 -- node1\n",
      make_topology("levels:2@100GB/s"), 4, 2);
  const PipelineOptimum fastest = roomy.best();
  ASSERT_TRUE(fastest.best);
  EXPECT_EQ(fastest.best->plan.pipeline.num_stages(), 1);  // both layers on both devices
  std::vector<std::optional<std::int32_t>> stages;
  for (const std::int64_t memory : {500'000'000, 100'000'000}) {
    TopologyParts parts = roomy.topology.parts();
    for (DeviceKind& kind : parts.kinds) kind.memory = Bytes(memory);
    const Topology small(std::move(parts));
    const PipelineOptimum found = best_pipeline(roomy.graph, CostModel(small), roomy.options, roomy.space,
                                                Placements(small), LeaveOut::ByBounds, {});
    stages.emplace_back(found.best ? std::optional(found.best->plan.pipeline.num_stages()) : std::nullopt);
    if (found.best) {
      EXPECT_GT(found.best->evaluation.time, fastest.best->evaluation.time);
    }
  }
  EXPECT_THAT(stages, testing::ElementsAre(2, std::nullopt));
}

TEST(BestPipeline, CountsItsSpace) {
  SmallCase c(
      "node0 -- A -- forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=0\n"
      "node1 -- B -- forward_compute_time=1, backward_compute_time=2, activation_size=8, parameter_size=0\n"
      "\tnode0 -- node1\n",
      make_topology("levels:2@1GB/s"), 2, 2);
  c.space.schedules = {"gpipe", "1f1b"};
  // One stage on both devices, data-parallel or not, or on one; two stages. Each under both schedules.
  EXPECT_EQ(c.best().pipelines, 8);
  EXPECT_EQ(number_of_pipelines(c.space, Placements(c.topology), 2, 8), 8);
  EXPECT_EQ(number_of_pipelines(c.space, Placements(c.topology), 2, 5), 6);
  c.space.stages = 2;
  EXPECT_EQ(c.best().pipelines, 2);
  c.space.stages = 3;
  EXPECT_EQ(c.best().pipelines, 0);
  EXPECT_FALSE(c.best().best);
  std::int64_t tried = 0;
  c.space.stages = 0;
  best_pipeline(c.graph, c.costs, c.options, c.space, Placements(c.topology), LeaveOut::Nothing,
                [&](const PipelineOptimum& so_far) {
                  tried = so_far.simulated;
                  return true;
                });
  EXPECT_EQ(tried, 8);
}

// Stopped after any number of pipelines, it has the best of those, and claims no more.
TEST(BestPipeline, EndsWhereItIsToldTo) {
  for_each_seed(5, [](Rng& rng) {
    const SmallCase c = SmallCase::random(rng, true);
    const auto after = [&](std::int64_t most) {
      return best_pipeline(c.graph, c.costs, c.options, c.space, Placements(c.topology), LeaveOut::Nothing,
                           [&](const PipelineOptimum& so_far) { return so_far.simulated < most; });
    };
    const PipelineOptimum whole = c.best(LeaveOut::Nothing);
    ASSERT_TRUE(whole.best && whole.proven());
    EXPECT_FALSE(after(0).best || after(0).proven());
    Nanoseconds before = after(1).best->evaluation.time;
    for (const std::int64_t most : {whole.simulated / 3, whole.simulated / 2, whole.simulated - 1}) {
      const PipelineOptimum some = after(std::max<std::int64_t>(1, most));
      EXPECT_EQ(some.simulated, std::max<std::int64_t>(1, most));
      EXPECT_EQ(some.proven(), some.simulated == whole.simulated);
      EXPECT_TRUE(some.best && some.best->evaluation.time <= before);
      before = some.best->evaluation.time;
    }
    EXPECT_LE(whole.best->evaluation.time, before);
    EXPECT_TRUE(after(whole.simulated).proven());
  });
}

}  // namespace
}  // namespace pipesim
