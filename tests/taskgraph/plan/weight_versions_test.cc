#include "taskgraph/plan/weight_versions.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

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

OperatorGraph linear_layers(std::int32_t layers) {
  GraphBuilder b("layers", 4);
  TensorId x = b.data("x", {4, 512});
  for (std::int32_t l = 0; l < layers; ++l)
    x = b.add("linear", "fc" + std::to_string(l), {x}, {{"out", std::int64_t{512}}, {"bias", 0}});
  return b.build();
}

/// A layer on a device.
struct LayerPipeline {
  LayerPipeline(const std::string& schedule, std::int32_t stages, std::int32_t microbatches)
      : graph(linear_layers(stages)), topology(make_topology("p100-4x4:2")), costs(topology) {
    options.microbatches = microbatches;
    Pipeline pipeline{schedule, {}};
    for (std::int32_t s = 0; s < stages; ++s) {
      pipeline.stage_of.push_back(s);
      strategy.push_back(single_device(graph.operators()[static_cast<std::size_t>(s)],
                                       DeviceId(static_cast<std::size_t>(s))));
    }
    options.pipeline = pipeline;
  }
  OperatorGraph graph;
  Topology topology;
  CostModel costs;
  PlanOptions options;
  Strategy strategy;
};

struct Built : SimulatedPlan {
  using SimulatedPlan::SimulatedPlan;
  explicit Built(const LayerPipeline& p) : SimulatedPlan(p.graph, p.costs, p.options, p.strategy) {}
};

// Changes of a stage's weights on a device that were made before the microbatch began its way there, forward
// or back.
std::int32_t changes_before(const Built& b, std::int32_t stage, DeviceId device, std::int32_t microbatch,
                            bool forward) {
  Nanoseconds begin = INT64_MAX;
  std::map<std::int32_t, Nanoseconds> changed;  // by the first microbatch of each: when
  for (std::size_t t = 0; t < b.tasks.labels.size(); ++t) {
    const TaskLabel& label = b.tasks.labels[t];
    if (label.device != device || !label.op.valid() || b.contents.stage_of(label.op) != stage) continue;
    const std::int32_t of = std::max(0, label.microbatch);
    if (label.kind == TaskKind::Update) changed[of] = std::max(changed[of], b.timeline.end[t]);
    const bool goes = forward
                          ? label.kind == TaskKind::Forward
                          : label.kind == TaskKind::BackwardInput || label.kind == TaskKind::BackwardWeight;
    if (goes && of == microbatch) begin = std::min(begin, b.timeline.start[t]);
  }
  std::int32_t before = 0;
  for (const auto& [first, when] : changed) before += when <= begin ? 1 : 0;
  return before;
}

// Microbatch b, counted from 0, uses version max(0, b − warm-up), where a stage's warm-up is the number of
// stages after it (Narayanan et al., 2019, section 3.3).
TEST(WeightVersions, OfPipeDreamFollowItsWarmUp) {
  for (std::int32_t stages = 1; stages <= 5; ++stages) {
    for (const std::int32_t microbatches : {1, 2, 5, 9}) {
      const LayerPipeline p("pipedream", stages, microbatches);
      Built b(p);
      b.build(microbatches);
      for (std::int32_t s = 0; s < stages; ++s) {
        const std::int32_t warm_up = stages - 1 - s;
        EXPECT_EQ(b.contents.versions().copies(s), warm_up + 1);
        for (std::int32_t m = 0; m < microbatches; ++m) {
          SCOPED_TRACE(testing::Message() << stages << " stages: " << s << ", microbatch " << m);
          EXPECT_EQ(b.contents.versions().version(s, m), std::max(0, m - warm_up));
          const DeviceId device(static_cast<std::size_t>(s));
          EXPECT_EQ(changes_before(b, s, device, m, true), std::max(0, m - warm_up));
          EXPECT_EQ(changes_before(b, s, device, m, false), m);
        }
      }
    }
  }
}

TEST(WeightVersions, OfVerticalSyncAreThoseOfTheFirstStage) {
  for (std::int32_t stages = 1; stages <= 5; ++stages) {
    const LayerPipeline p("pipedream-vertical-sync", stages, 9);
    Built b(p);
    b.build(9);
    for (std::int32_t s = 0; s < stages; ++s) {
      for (std::int32_t m = 0; m < 9; ++m) {
        EXPECT_EQ(b.contents.versions().version(s, m), std::max(0, m - (stages - 1)));
        EXPECT_GE(changes_before(b, s, DeviceId(static_cast<std::size_t>(s)), m, true),
                  b.contents.versions().version(s, m));
      }
    }
  }
}

// W(t + 1) = W(t) − ν ∇f(W(t − 1)): an iteration's microbatches meet the weights of the one before the last
// (Narayanan et al., 2021, section 3.1).
TEST(WeightVersions, AreTwoWithDoubleBuffering) {
  constexpr std::int32_t kEvery = 4;
  const LayerPipeline p("2bw", 3, kEvery);
  Built b(p);
  b.build(5 * kEvery);
  for (std::int32_t s = 0; s < 3; ++s) {
    EXPECT_EQ(b.contents.versions().copies(s), 2);
    for (std::int32_t m = 0; m < 5 * kEvery; ++m) {
      SCOPED_TRACE(testing::Message() << s << ", microbatch " << m);
      EXPECT_EQ(b.contents.versions().version(s, m), std::max(0, m / kEvery - 1));
      EXPECT_GE(changes_before(b, s, DeviceId(static_cast<std::size_t>(s)), m, true),
                b.contents.versions().version(s, m));
      EXPECT_EQ(changes_before(b, s, DeviceId(static_cast<std::size_t>(s)), m, false), m / kEvery);
    }
  }
}

// With fewer, the microbatches that fill the pipeline would need weights that they have yet to change.
TEST(WeightVersions, OfTwoBuffersGoOnWithAsFewMicrobatchesAsAreAllowed) {
  for (std::int32_t stages = 1; stages <= 6; ++stages) {
    const LayerPipeline p("2bw", stages, std::max(1, stages - 1));
    ASSERT_EQ(illegal(p.graph, p.strategy, p.options, p.topology), std::nullopt);
    Built b(p);
    b.build(6 * p.options.microbatches);
    EXPECT_THAT(check_schedule(b.tasks.dag, b.timeline), IsEmpty());
  }
}

// A stage's first microbatch on its way needs the oldest version, and each behind it a newer one; 2BW has
// two.
TEST(WeightVersions, TakeTheMemoryOfThoseThatAreNeeded) {
  constexpr std::int32_t kLayers = 4;
  const std::map<std::string, std::vector<std::int64_t>> versions{{"1f1b", {1, 1, 1, 1}},
                                                                  {"pipedream", {4, 3, 2, 1}},
                                                                  {"pipedream-vertical-sync", {4, 4, 4, 4}},
                                                                  {"2bw", {2, 2, 2, 2}}};
  for (const auto& [schedule, expected] : versions) {
    SCOPED_TRACE(schedule);
    const LayerPipeline p(schedule, kLayers, 4);
    Built b(p);
    b.build(schedule == "1f1b" ? 4 : 20);
    constexpr std::int64_t kWeights = 512 * 512 * 4;
    const std::vector<DeviceMemory> peaks = peak_memory(b.expanded, b.timeline);
    const std::vector<Bytes> most = allocated_memory(b.expanded);
    for (std::size_t s = 0; s < kLayers; ++s) {
      const auto of = [&](MemoryCategory category) {
        return peaks[s].at_peak[static_cast<std::size_t>(category)].value;
      };
      EXPECT_EQ(of(MemoryCategory::Weights) + of(MemoryCategory::StashedWeights), expected[s] * kWeights)
          << s;
      EXPECT_LE(peaks[s].peak, most[s]);
    }
  }
}

bool make_asynchronous(RandomPipeline& p, const OperatorGraph& graph, Rng& rng, const Topology& topology) {
  constexpr std::array<const char*, 3> kSchedules{"pipedream", "pipedream-vertical-sync", "2bw"};
  p.options.pipeline->schedule = kSchedules[rng.below(kSchedules.size())];
  return !illegal(graph, p.strategy, p.options, topology);
}

// Each change of weights widens its gradients anew, and a device has those of one change of a stage at once.
TEST(WeightVersions, WidenGradientsForEachChange) {
  const OperatorGraph graph = make_zoo_model(
      "llama:batch=4,layers=2,hidden=16,heads=4,kv_heads=2,vocab=48,sequence=1,ffn=24,dtype=bfloat16");
  const Topology topology = make_topology("p100-4x4:1");
  const CostModel widening(topology, nullptr, parse_runtime("pipesim:step-gradients=float32")),
      plain(topology);
  std::int64_t more = 0;
  for_each_seed(20, [&](Rng& rng) {
    RandomPipeline p = random_pipeline(graph, rng, topology);
    if (!make_asynchronous(p, graph, rng, topology)) return;
    p.options.gradient_type = DataType::BFloat16;
    Built with(graph, widening, p.options, p.strategy), without(graph, plain, p.options, p.strategy);
    with.build(6 * p.options.microbatches);
    without.build(6 * p.options.microbatches);
    EXPECT_EQ(with.timeline, without.timeline);
    const std::vector<DeviceMemory> peaks = peak_memory(with.expanded, with.timeline),
                                    before = peak_memory(without.expanded, without.timeline);
    const std::vector<WeightMemory> held = with.contents.permanent_memory(with.bound);
    const std::vector<Bytes> most = allocated_memory(with.expanded);
    for (std::size_t d = 0; d < peaks.size(); ++d) {
      // Copies take twice as much as gradients of 16 bits, on devices that update all of theirs.
      EXPECT_LE(peaks[d].peak, before[d].peak + 2 * held[d].gradients);
      EXPECT_LE(before[d].peak, peaks[d].peak);
      EXPECT_LE(peaks[d].peak, most[d]);
      more += peaks[d].peak > before[d].peak ? 1 : 0;
    }
  });
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_THAT(more, Ge(5));
}

// What goes on without end is what more microbatches add, to the nanosecond.
TEST(WeightVersions, StreamsAreWhatMoreMicrobatchesAdd) {
  std::map<std::string, std::int64_t> proven;
  for (const char* model : {"mlp:batch=8,layers=4", "lenet:batch=8", "rnnlm:batch=4,steps=2,hidden=8"}) {
    const OperatorGraph graph = make_zoo_model(model);
    for (const char* name : {"p100-4x4:2", "levels:2@10GB/s,3@0.1GB/s"}) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology);
      for_each_seed(12, [&](Rng& rng) {
        RandomPipeline p = random_pipeline(graph, rng, topology);
        if (!make_asynchronous(p, graph, rng, topology)) return;
        if (rng.below(3) == 0) p.options.recompute = parse_recompute("full");
        Built b(graph, costs, p.options, p.strategy);
        for (const std::int32_t few : stream_lengths(b.contents, b.bound)) {
          b.build(few);
          EXPECT_THAT(check_schedule(b.tasks.dag, b.timeline), IsEmpty());
          const auto window = find_steady_stream(b.expanded, b.timeline);
          if (!window) continue;
          ++proven[p.options.pipeline->schedule];
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
  for (const char* schedule : {"pipedream", "pipedream-vertical-sync", "2bw"})
    EXPECT_THAT(proven[schedule], Ge(4)) << schedule;
}

TEST(WeightVersions, AreRefusedToWeightsOfSeveralStages) {
  GraphBuilder b("tied", 4);
  TensorId x = b.data("x", {4, 64});
  x = b.add("linear", "first", {x}, {{"out", std::int64_t{64}}, {"bias", 0}}, {"w"});
  x = b.add("linear", "second", {x}, {{"out", std::int64_t{64}}, {"bias", 0}}, {"w"});
  const OperatorGraph graph = b.build();
  const Topology topology = make_topology("p100-4x4:1");
  const Strategy strategy{single_device(graph.operators()[0], DeviceId(0)),
                          single_device(graph.operators()[1], DeviceId(1))};
  EXPECT_EQ(illegal(graph, strategy, Pipeline{"1f1b", {0, 1}}, 4, topology), std::nullopt);
  EXPECT_EQ(
      illegal(graph, strategy, Pipeline{"pipedream", {0, 1}}, 4, topology),
      "schedule \"pipedream\": weight \"w\" is used in several stages, and each would have versions of its "
      "own; put all its uses into one stage, or take a schedule that empties the pipeline, like 1f1b");
}

TEST(Inference, GoesForwardOnly) {
  for (const char* model : small_models) {
    const OperatorGraph graph = make_zoo_model(model);
    const Topology topology = make_topology("p100-4x4:2");
    const CostModel costs(topology);
    for_each_seed(3, [&](Rng& rng) {
      RandomPipeline p = random_pipeline(graph, rng, topology);
      p.options.pipeline->schedule = "inference";
      if (rng.below(2) == 0) p.options.recompute = parse_recompute("full");  // nothing comes back for it
      if (illegal(graph, p.strategy, p.options, topology)) return;
      Built b(graph, costs, p.options, p.strategy);
      b.build(p.options.microbatches);
      EXPECT_THAT(check_schedule(b.tasks.dag, b.timeline), IsEmpty());
      for (const TaskLabel& label : b.tasks.labels) {
        const TaskKind kind = label.kind;
        EXPECT_TRUE(kind == TaskKind::Forward || kind == TaskKind::ForwardTransfer ||
                    kind == TaskKind::InnerReduce || kind == TaskKind::Barrier);
      }
      for (const WeightMemory& m : b.contents.permanent_memory(b.bound))
        EXPECT_EQ((m.gradients + m.optimizer_state).value, 0);
      // The same contents serve training and inference by turns.
      Pipeline training = *p.options.pipeline;
      training.schedule = "gpipe";
      if (illegal(graph, p.strategy, training, p.options.microbatches, topology)) return;
      p.options.pipeline = training;
      Built trained(graph, costs, p.options, p.strategy);
      trained.build(p.options.microbatches);
      b.contents = b.contents.with(training, p.options.recompute);
      b.build(p.options.microbatches);
      EXPECT_TRUE(std::ranges::equal(b.tasks.dag.keys(), trained.tasks.dag.keys()));
      EXPECT_EQ(b.timeline, trained.timeline);
    });
  }
}

}  // namespace
}  // namespace pipesim
