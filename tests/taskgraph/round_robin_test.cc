#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "models/graph_builder.h"
#include "models/zoo/zoo.h"
#include "sim/check_schedule.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "taskgraph/proofs/steady_state.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/simulated_plan.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::Ge;
using testing::IsEmpty;

using Replicas = std::vector<std::int32_t>;

/// Equal layers, so many of each stage; every replica of a stage is a device.
struct ReplicatedLayers {
  ReplicatedLayers(const std::string& schedule, Replicas replicas_of_stage, std::int32_t microbatches,
                   const Replicas& layers, std::int64_t batch = 64)
      : graph(layers_of(layers, batch)), topology(make_topology("p100-4x4:4")), costs(topology) {
    options.microbatches = microbatches;
    Pipeline pipeline{schedule, {}, std::move(replicas_of_stage)};
    std::size_t device = 0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const auto replicas = static_cast<std::size_t>(pipeline.replicas[s]);
      for (std::int32_t l = 0; l < layers[s]; ++l) {
        const Operator& op = graph.operators()[strategy.size()];
        ParallelConfig config = single_device(op, DeviceId(device));
        config.replicas = pipeline.replicas[s];
        for (std::size_t r = 1; r < replicas; ++r) config.devices.emplace_back(device + r);
        strategy.push_back(std::move(config));
        pipeline.stage_of.push_back(static_cast<std::int32_t>(s));
      }
      device += replicas;
    }
    options.pipeline = std::move(pipeline);
  }
  static OperatorGraph layers_of(const Replicas& layers, std::int64_t batch) {
    GraphBuilder b("layers", batch);
    TensorId x = b.data("x", {batch, 512});
    for (std::int32_t l = 0; l < std::reduce(layers.begin(), layers.end()); ++l)
      x = b.add("linear", "fc" + std::to_string(l), {x}, {{"out", std::int64_t{512}}, {"bias", 0}});
    return b.build();
  }
  [[nodiscard]] DeviceId device_of(std::int32_t stage, std::int32_t replica) const {
    const auto first = options.pipeline->replicas.begin();
    return DeviceId(static_cast<std::size_t>(std::reduce(first, first + stage) + replica));
  }
  OperatorGraph graph;
  Topology topology;
  CostModel costs;
  PlanOptions options;
  Strategy strategy;
};

struct BuiltReplicas : SimulatedPlan {
  using SimulatedPlan::SimulatedPlan;
  explicit BuiltReplicas(const ReplicatedLayers& p)
      : SimulatedPlan(p.graph, p.costs, p.options, p.strategy) {}
};

const std::vector<Replicas>& replica_shapes() {
  static const std::vector<Replicas> shapes{{2, 1},    {1, 2},    {3, 2}, {2, 3, 1},
                                            {4, 1, 2}, {1, 3, 3}, {2},    {6, 4}};
  return shapes;
}

// ⌈N_{≥s} / r_s⌉ − 1 (Narayanan et al., SOSP 2019, section 3.2), counted device by device.
std::int32_t warm_up_of(const Replicas& replicas, std::size_t stage) {
  std::int32_t machines = 0, rounds = 0;
  for (std::size_t s = stage; s < replicas.size(); ++s) machines += replicas[s];
  while (rounds * replicas[stage] < machines) ++rounds;
  return rounds - 1;
}

// Changes that were made on the device before the microbatch began its way there.
std::int32_t changes_on(const BuiltReplicas& b, OperatorId op, DeviceId device, std::int32_t microbatch,
                        bool forward) {
  Nanoseconds begin = INT64_MAX;
  std::vector<Nanoseconds> changed;
  for (std::size_t t = 0; t < b.tasks.labels.size(); ++t) {
    const TaskLabel& label = b.tasks.labels[t];
    if (label.device != device || label.op != op) continue;
    if (label.kind == TaskKind::Update) changed.push_back(b.timeline.end[t]);
    const bool back = label.kind == TaskKind::BackwardInput || label.kind == TaskKind::BackwardWeight;
    if ((forward ? label.kind == TaskKind::Forward : back) && label.microbatch == microbatch)
      begin = std::min(begin, b.timeline.start[t]);
  }
  EXPECT_LT(begin, INT64_MAX);
  return static_cast<std::int32_t>(
      std::ranges::count_if(changed, [&](Nanoseconds when) { return when <= begin; }));
}

// The n-th microbatch of a replica meets version max(0, n − warm-up), both ways, and comes back after n
// changes: those of all replicas' microbatches before its turn.
TEST(RoundRobin, VersionsFollowTheWarmUpOfReplicas) {
  for (const Replicas& replicas : replica_shapes()) {
    const auto stages = static_cast<std::int32_t>(replicas.size());
    for (const std::int32_t microbatches : {5, 12, 19}) {
      const ReplicatedLayers p("pipedream", replicas, microbatches, Replicas(replicas.size(), 1));
      ASSERT_EQ(illegal(p.graph, p.strategy, p.options, p.topology), std::nullopt);
      BuiltReplicas b(p);
      b.build(microbatches);
      EXPECT_THAT(check_schedule(b.tasks.dag, b.timeline), IsEmpty());
      for (std::int32_t s = 0; s < stages; ++s) {
        const std::int32_t of_stage = replicas[static_cast<std::size_t>(s)];
        const std::int32_t warm_up = warm_up_of(replicas, static_cast<std::size_t>(s));
        EXPECT_EQ(b.contents.versions().copies(s), warm_up + 1);
        EXPECT_EQ(b.contents.versions().every(s), of_stage);
        for (std::int32_t m = 0; m < microbatches; ++m) {
          SCOPED_TRACE(testing::Message() << testing::PrintToString(replicas) << " stage " << s
                                          << ", microbatch " << m << " of " << microbatches);
          const std::int32_t turn = m / of_stage, version = std::max(0, turn - warm_up);
          const DeviceId device = p.device_of(s, m % of_stage);
          EXPECT_EQ(b.contents.versions().version(s, m), version);
          EXPECT_EQ(changes_on(b, OperatorId(static_cast<std::size_t>(s)), device, m, true), version);
          EXPECT_EQ(changes_on(b, OperatorId(static_cast<std::size_t>(s)), device, m, false), turn);
        }
      }
    }
  }
}

// With vertical sync no stage's version has gradients of microbatches that the first stage's lacks, and it is
// the newest such version.
TEST(RoundRobin, VerticalSyncHasTheGradientsOfTheFirstStageOnly) {
  for (const Replicas& replicas : replica_shapes()) {
    const ReplicatedLayers p("pipedream-vertical-sync", replicas, 24, Replicas(replicas.size(), 1));
    BuiltReplicas b(p);
    b.build(24);
    EXPECT_THAT(check_schedule(b.tasks.dag, b.timeline), IsEmpty());
    const WeightVersions& versions = b.contents.versions();
    for (std::int32_t m = 0; m < 24; ++m) {
      const std::int32_t taken_in = versions.version(0, m) * replicas.front();
      EXPECT_EQ(versions.version(0, m), std::max(0, m / replicas.front() - warm_up_of(replicas, 0)));
      for (std::size_t s = 0; s < replicas.size(); ++s) {
        SCOPED_TRACE(testing::Message()
                     << testing::PrintToString(replicas) << " stage " << s << ", microbatch " << m);
        const auto stage = static_cast<std::int32_t>(s);
        const std::int32_t version = versions.version(stage, m);
        EXPECT_LE(version * replicas[s], taken_in);
        EXPECT_GT((version + 1) * replicas[s], taken_in);
        EXPECT_LE(m / replicas[s] - version + 1, versions.copies(stage));
        const DeviceId device = p.device_of(stage, m % replicas[s]);
        EXPECT_GE(changes_on(b, OperatorId(s), device, m, true), version);
      }
    }
  }
}

// Each device runs its own microbatches, in the order of the schedule; a gradient comes back to the replica
// that went forward.
TEST(RoundRobin, MicrobatchesGoToReplicasInTurn) {
  for (const char* model : {"mlp:batch=8,layers=6", "lenet:batch=8", "rnnlm:batch=4,steps=2,hidden=8"}) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("p100-4x4:2");
    const CostModel costs(topology);
    for_each_seed(8, [&](Rng& rng) {
      const RandomPipeline p = random_replicas(graph, rng, topology);
      const Pipeline& pipeline = *p.options.pipeline;
      SimulatedPlan s(graph, costs, p.options, p.strategy);
      s.build(p.options.microbatches);
      EXPECT_THAT(check_schedule(s.tasks.dag, s.timeline), IsEmpty());
      EXPECT_NO_THROW(s.tasks.dag.check_unique());
      const PipelineOrder order =
          pipeline_order(p.strategy, pipeline, p.options.microbatches, topology.num_devices());
      ASSERT_EQ(order.steps.size(),
                static_cast<std::size_t>(std::reduce(pipeline.replicas.begin(), pipeline.replicas.end())));
      std::map<std::pair<OperatorId, std::int32_t>, std::set<DeviceId>> ran;  // by operator and microbatch
      for (std::size_t t = 0; t < s.tasks.labels.size(); ++t) {
        const TaskLabel& label = s.tasks.labels[t];
        if (label.kind > TaskKind::BackwardWeight) continue;
        const std::int32_t m = std::max(0, label.microbatch);
        ran[{label.op, m}].insert(label.device);
        const auto group = static_cast<std::size_t>(order.group_of[label.device.index()]);
        const std::int32_t stage = s.contents.stage_of(label.op);
        EXPECT_TRUE(std::ranges::any_of(order.steps[group], [&](const PipelineStep& step) {
          return step.microbatch == m && step.stage == stage &&
                 (step.kind == StepKind::Forward) == (label.kind == TaskKind::Forward);
        }));
      }
      for (const auto& [of, devices] : ran) {
        const std::vector<DeviceId>& all = p.strategy[of.first.index()].devices;
        const auto replicas = static_cast<std::size_t>(pipeline.replicas_of(s.contents.stage_of(of.first)));
        const std::size_t each = all.size() / replicas,
                          first = static_cast<std::size_t>(of.second) % replicas * each;
        EXPECT_EQ(devices, std::set<DeviceId>(all.begin() + static_cast<std::ptrdiff_t>(first),
                                              all.begin() + static_cast<std::ptrdiff_t>(first + each)));
      }
    });
  }
}

// Gradients of r microbatches, one of each replica, are all-reduced once and change the weights of all
// replicas.
TEST(RoundRobin, EveryGradientEntersOneChange) {
  for (const Replicas& replicas : replica_shapes()) {
    constexpr std::int32_t kMicrobatches = 13;
    const ReplicatedLayers p("pipedream", replicas, kMicrobatches, Replicas(replicas.size(), 1));
    BuiltReplicas b(p);
    b.build(kMicrobatches);
    std::vector<std::vector<TaskId>> before(b.tasks.dag.num_tasks());
    for (std::size_t t = 0; t < before.size(); ++t) {
      for (const TaskId next : b.tasks.dag.successors(TaskId(t))) before[next.index()].push_back(TaskId(t));
    }
    for (std::size_t s = 0; s < replicas.size(); ++s) {
      const std::int32_t all = replicas[s];
      for (std::int32_t first = 0; first < kMicrobatches; first += all) {
        SCOPED_TRACE(testing::Message()
                     << testing::PrintToString(replicas) << " stage " << s << " from " << first);
        std::multiset<std::int32_t> taken_in, expected;
        std::set<DeviceId> changed;
        for (std::int32_t m = first; m < std::min(first + all, kMicrobatches); ++m) expected.insert(m);
        for (std::size_t t = 0; t < b.tasks.labels.size(); ++t) {
          const TaskLabel& label = b.tasks.labels[t];
          const bool sync = label.kind == TaskKind::GradientSync &&
                            b.tasks.labels[t].tensor == p.graph.operators()[s].uses[1].tensor;
          const bool update = label.kind == TaskKind::Update && label.op == OperatorId(s);
          if (label.microbatch != first || !(sync || update)) continue;
          if (sync) {
            EXPECT_EQ(label.group_size, all);
          }
          if (update) changed.insert(label.device);
          if (update && all > 1) continue;  // waits for what lies there, too
          for (const TaskId maker : before[t]) {
            const TaskLabel& made_by = b.tasks.labels[maker.index()];
            if (made_by.kind == TaskKind::BackwardWeight) taken_in.insert(made_by.microbatch);
          }
        }
        EXPECT_EQ(taken_in, expected);
        EXPECT_EQ(changed.size(), static_cast<std::size_t>(all));
      }
    }
  }
}

// A replica keeps a version for each of its microbatches under way.
TEST(RoundRobin, ReplicasStashVersionsOfTheirOwnMicrobatches) {
  for (const Replicas& replicas : replica_shapes()) {
    const ReplicatedLayers p("pipedream", replicas, 4, Replicas(replicas.size(), 1));
    BuiltReplicas b(p);
    b.build(stream_lengths(b.contents, b.bound).back());
    constexpr std::int64_t kWeights = 512 * 512 * 4;
    const std::vector<DeviceMemory> peaks = peak_memory(b.expanded, b.timeline);
    const std::vector<Bytes> most = allocated_memory(b.expanded);
    for (std::size_t s = 0; s < replicas.size(); ++s) {
      for (std::int32_t r = 0; r < replicas[s]; ++r) {
        SCOPED_TRACE(testing::Message()
                     << testing::PrintToString(replicas) << " stage " << s << ", replica " << r);
        const std::size_t d = p.device_of(static_cast<std::int32_t>(s), r).index();
        const auto of = [&](MemoryCategory category) {
          return peaks[d].at_peak[static_cast<std::size_t>(category)].value;
        };
        EXPECT_EQ(of(MemoryCategory::Weights), kWeights);
        EXPECT_EQ(of(MemoryCategory::Gradients), kWeights);
        EXPECT_EQ(of(MemoryCategory::StashedWeights), warm_up_of(replicas, s) * kWeights);
        EXPECT_LE(peaks[d].peak, most[d]);
      }
    }
  }
}

// What goes on without end is what more microbatches add, to the nanosecond.
TEST(RoundRobin, StreamsAreWhatMoreMicrobatchesAdd) {
  std::int32_t proven = 0, tried = 0;
  for (const char* model : {"mlp:batch=8,layers=4", "lenet:batch=8"}) {
    const OperatorGraph graph = make_zoo_model(model);
    for (const char* name : {"p100-4x4:2", "levels:2@10GB/s,3@0.1GB/s"}) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology);
      for_each_seed(8, [&](Rng& rng) {
        RandomPipeline p = random_replicas(graph, rng, topology);
        if (rng.below(3) == 0) p.options.recompute = parse_recompute("full");
        BuiltReplicas b(graph, costs, p.options, p.strategy);
        if (!b.contents.versions().several()) return;
        ++tried;
        for (const std::int32_t few : stream_lengths(b.contents, b.bound)) {
          b.build(few);
          EXPECT_THAT(check_schedule(b.tasks.dag, b.timeline), IsEmpty());
          const auto window = find_steady_stream(b.expanded, b.timeline);
          if (!window) continue;
          ++proven;
          const Nanoseconds of_few = b.timeline.makespan;
          for (const std::int32_t periods : {1, 3}) {
            b.build(few + periods * window->microbatches * b.contents.versions().period());
            EXPECT_EQ(b.timeline.makespan - of_few, periods * window->length()) << periods;
          }
          break;
        }
      });
    }
  }
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_THAT(proven, Ge(tried / 2)) << tried;
  EXPECT_THAT(tried, Ge(12));
}

// Twice the work on twice the devices keeps up with a stage of single ones: a microbatch every T, where its
// stages together take 3T (section 3.1: the slowest stage by its replicas decides).
TEST(RoundRobin, ReplicasKeepUpWithTheOtherStages) {
  const ReplicatedLayers p("pipedream", {2, 1}, 4, {16, 8}, 8192);
  BuiltReplicas b(p);
  b.build(stream_lengths(b.contents, b.bound).back());
  const auto window = find_steady_stream(b.expanded, b.timeline);
  ASSERT_TRUE(window.has_value());
  std::vector<Nanoseconds> work(p.topology.num_devices(), 0);  // of one microbatch and its updates
  for (std::size_t t = 0; t < b.tasks.labels.size(); ++t) {
    const TaskLabel& label = b.tasks.labels[t];
    if (is_pass(label.kind) || label.kind == TaskKind::Update)
      work[label.device.index()] += b.tasks.dag.duration(TaskId(t));
  }
  const Nanoseconds busiest = std::ranges::max(work) / (b.expanded.microbatches() / 2);
  const Nanoseconds turn = window->length() / window->microbatches;  // of two microbatches
  EXPECT_GE(turn, busiest);
  EXPECT_LE(static_cast<double>(turn), 1.1 * static_cast<double>(busiest));
}

TEST(RoundRobin, SteadyInferenceIsWhatSimulatingAllGives) {
  std::int32_t proven = 0;
  const OperatorGraph graph = make_zoo_model("mlp:batch=8,layers=4");
  const Topology topology = make_topology("p100-4x4:2");
  const CostModel costs(topology);
  for_each_seed(12, [&](Rng& rng) {
    RandomPipeline p = random_replicas(graph, rng, topology);
    p.options.pipeline->schedule = "inference";
    p.options.microbatches = 96;
    SimulatedPlan all(graph, costs, p.options, p.strategy), few(graph, costs, p.options, p.strategy);
    all.build(96);
    for (const std::int32_t n : few_microbatches(few.contents, few.bound)) {
      few.build(n);
      const auto steady = find_steady_state(few.expanded, few.timeline);
      if (!steady) continue;
      ++proven;
      EXPECT_EQ(steady->time_of(few.timeline.makespan), all.timeline.makespan);
    }
  });
  EXPECT_THAT(proven, Ge(sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr ? 0 : 4));
}

// All stages on one device, one microbatch after the other: the versions stay those of the replicas.
TEST(RoundRobin, OneDeviceReplaysTheVersionsOfReplicas) {
  ReplicatedLayers p("pipedream", {2, 3}, 9, {1, 1});
  for (std::size_t i = 0; i < 2; ++i) p.strategy[i] = single_device(p.graph.operators()[i], DeviceId(0));
  ASSERT_EQ(illegal(p.graph, p.strategy, p.options, p.topology), std::nullopt);
  BuiltReplicas b(p);
  b.build(9);
  EXPECT_THAT(check_schedule(b.tasks.dag, b.timeline), IsEmpty());
  const WeightVersions replicas(p.options.pipeline, 9);
  for (std::int32_t s = 0; s < 2; ++s) {
    for (std::int32_t m = 0; m < 9; ++m) {
      EXPECT_EQ(changes_on(b, OperatorId(static_cast<std::size_t>(s)), DeviceId(0), m, false),
                replicas.change(s, m));
      EXPECT_GE(changes_on(b, OperatorId(static_cast<std::size_t>(s)), DeviceId(0), m, true),
                replicas.version(s, m));
    }
  }
}

struct IllegalReplicas : testing::Test {
  std::string reason(const std::string& schedule, Replicas replicas) {
    ReplicatedLayers p("pipedream", {2, 1}, 4, {1, 1});
    p.options.pipeline->schedule = schedule;
    p.options.pipeline->replicas = std::move(replicas);
    return illegal(p.graph, p.strategy, p.options, p.topology).value_or("");
  }
};

TEST_F(IllegalReplicas, SayWhatIsAllowed) {
  EXPECT_EQ(reason("pipedream", {2, 1}), "");
  EXPECT_EQ(reason("pipedream-vertical-sync", {2, 1}), "");
  EXPECT_EQ(reason("inference", {2, 1}), "");
  EXPECT_EQ(reason("1f1b", {1, 1}), "");
  EXPECT_EQ(reason("1f1b", {2, 1}),
            "pipeline: schedule \"1f1b\": it takes no replicas that have microbatches in turn, allowed: "
            "pipedream, pipedream-vertical-sync, inference");
  EXPECT_EQ(reason("2bw", {2, 1}),
            "pipeline: schedule \"2bw\": it takes no replicas that have microbatches in turn, allowed: "
            "pipedream, pipedream-vertical-sync, inference");
  EXPECT_EQ(reason("pipedream", {2}), "pipeline: 1 counts of replicas for 2 stages; each stage needs one");
  EXPECT_EQ(
      reason("pipedream", {2, 2}),
      "pipeline: operator \"fc1\" of stage 1 has 1 copy, but the stage 2 replicas, each of which needs one "
      "or more");
  EXPECT_EQ(reason("pipedream", {0, 1}), "pipeline: stage 0 has 0 replicas, allowed: 1 to 128");
  EXPECT_EQ(
      reason("pipedream", {43, 3}),
      "pipeline: up to stage 1 replicas take turns that come again after 129 microbatches, the least common "
      "multiple of their numbers; allowed: up to 128");
}

TEST_F(IllegalReplicas, ShareNoDevice) {
  ReplicatedLayers p("pipedream", {2, 1}, 4, {2, 1});
  std::swap(p.strategy[1].devices[0], p.strategy[1].devices[1]);
  EXPECT_EQ(illegal(p.graph, p.strategy, p.options, p.topology),
            "pipeline: node0.gpu1 is in replica 1 and, with operator \"fc1\", in replica 0 of stage 0");
}

}  // namespace
}  // namespace pipesim
