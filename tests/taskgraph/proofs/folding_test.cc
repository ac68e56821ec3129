#include "taskgraph/proofs/find_folding.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"
#include "taskgraph/proofs/lane_classes.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_pipelines.h"
#include "tests/taskgraph/random_state_sharding.h"
#include "tests/taskgraph/replica_plans.h"
#include "topologies/device_kinds.h"
#include "topologies/gpu_share.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using testing::Ge;
using testing::Le;

/// An expanded strategy, and its times.
struct BuiltGraph {
  BuiltGraph(const PlanContents& contents, const BoundStrategy& strategy, const Folding* folding = nullptr)
      : bound(strategy), expanded(contents) {
    expanded.expand(strategy, {.folding = folding});
    timeline = simulate(tasks.dag);
    peaks = peak_memory(expanded, timeline);
    allocated = allocated_memory(expanded);
    wirings.assign(expanded.wirings().begin(), expanded.wirings().end());
    for (std::int32_t m = 0; m < expanded.microbatches(); ++m) {
      for (std::size_t op = 0; op < strategy.size(); ++op)
        of_operators.push_back(expanded.tasks_of(OperatorId(op), m));
    }
  }
  [[nodiscard]] std::pair<Nanoseconds, Nanoseconds> times(TaskId first, std::size_t more) const {
    const std::size_t i = first.index() + more;
    return {timeline.start[i], timeline.end[i]};
  }
  BoundStrategy bound;
  ExpandedStrategy expanded;
  const TaskGraph& tasks = expanded.graph();
  Timeline timeline;
  std::vector<DeviceMemory> peaks;
  std::vector<Bytes> allocated;
  std::vector<Wiring> wirings;
  std::vector<OperatorTasks> of_operators;  // by microbatch and operator
};

// Each shard in each stage when the device that stands for its own does; so do exchanges of a step.
void expect_same_pass(const Folding& folding, const BuiltGraph& all, const BuiltGraph& folded, std::size_t op,
                      const PassWork BoundOperator::*pass, TaskId first, TaskId first_folded) {
  if (!first.valid()) return;
  const BoundOperator &b = *all.bound[op], &f = *folded.bound[op];
  const std::size_t shards = b.config.devices.size(), shards_folded = f.config.devices.size();
  for (std::size_t stage = 0; stage < (b.*pass).stages(); ++stage) {
    for (std::size_t k = 0; k < shards; ++k) {
      const auto stands = f.shard_of_device[folding.stands_for(b.config.devices[k]).index()];
      ASSERT_GE(stands, 0);
      ASSERT_EQ(folded.times(first_folded, stage * shards_folded + static_cast<std::size_t>(stands)),
                all.times(first, stage * shards + k));
    }
  }
  const std::vector<InnerExchange>&exchanges = (b.*pass).exchanges, &of_folded = (f.*pass).exchanges;
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    std::set<std::int32_t> members;
    for (const DeviceId d : exchanges[i].task.group)
      members.insert(f.shard_of_device[folding.stands_for(d).index()]);
    const auto times = all.times(first, (b.*pass).stages() * shards + i);
    bool any = false;
    for (std::size_t j = 0; j < of_folded.size(); ++j) {
      any |= of_folded[j].step == exchanges[i].step &&
             members == std::set(of_folded[j].shards.begin(), of_folded[j].shards.end()) &&
             folded.times(first_folded, (f.*pass).stages() * shards_folded + j) == times;
    }
    ASSERT_TRUE(any);
  }
}

void expect_same_operators(const Folding& folding, const BuiltGraph& all, const BuiltGraph& folded) {
  for (std::size_t i = 0; i < all.of_operators.size(); ++i) {
    const OperatorTasks &a = all.of_operators[i], &f = folded.of_operators[i];
    const std::size_t op = i % all.bound.size();
    expect_same_pass(folding, all, folded, op, &BoundOperator::forward, a.forward, f.forward);
    expect_same_pass(folding, all, folded, op, &BoundOperator::forward, a.recompute, f.recompute);
    expect_same_pass(folding, all, folded, op, &BoundOperator::backward_input, a.backward_input,
                     f.backward_input);
    expect_same_pass(folding, all, folded, op, &BoundOperator::backward_weight, a.backward_weight,
                     f.backward_weight);
    for (std::size_t k = 0; a.update.valid() && k < a.update_devices().size(); ++k) {
      const auto at = std::ranges::find(f.update_devices(), folding.stands_for(a.update_devices()[k]));
      ASSERT_NE(at, f.update_devices().end());
      ASSERT_EQ(folded.times(f.update, static_cast<std::size_t>(at - f.update_devices().begin())),
                all.times(a.update, k));
    }
  }
}

void expect_same_transfers(const Folding& folding, const BuiltGraph& all, const BuiltGraph& folded) {
  ASSERT_EQ(folded.wirings.size(), all.wirings.size());
  for (std::size_t w = 0; w < all.wirings.size(); ++w) {
    const Wiring &a = all.wirings[w], &f = folded.wirings[w];
    for (std::size_t t = 0; t < a.plan->tasks.size(); ++t) {
      ASSERT_EQ(folded.times(f.first_task, static_cast<std::size_t>(folding.tasks_of(*a.plan)[t])),
                all.times(a.first_task, t));
    }
  }
}

/// How many tasks there are for each folded one; 1 where nothing is folded. Every task of the whole graph
/// must run when the one does that stands for it, and every device hold as much.
double expect_folded_as_whole(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                              const Strategy& strategy) {
  PlanContents contents(graph, costs, options);
  const BoundStrategy bound = contents.bind(strategy);
  const auto folding = find_folding(contents, bound);
  if (!folding) return 1;
  const BuiltGraph all(contents, bound);
  const BuiltGraph folded(contents, folding->strategy(), &*folding);
  EXPECT_EQ(folded.timeline.makespan, all.timeline.makespan);
  expect_same_operators(*folding, all, folded);
  expect_same_transfers(*folding, all, folded);
  EXPECT_EQ(folding->unfolded(folded.peaks), all.peaks);
  EXPECT_EQ(folding->unfolded(folded.allocated), all.allocated);
  return static_cast<double>(all.tasks.dag.num_tasks()) / static_cast<double>(folded.tasks.dag.num_tasks());
}

// Stages drawn at random, samples or copies on all of their devices, or anything: some fold, all run as they
// do unfolded.
TEST(Folding, OfRandomPlansRunsAsTheWholePlan) {
  std::int64_t folded = 0;
  for (const char* model : small_models) {
    if (model == std::string_view("resnet50:batch=8,image=64")) continue;  // many tasks, nothing new
    const OperatorGraph graph = make_zoo_model(model);
    for (const Topology& topology :
         {make_topology("p100-4x4:2"), make_topology("levels:2@10GB/s,2@0.1GB/s"),
          divided_gpu("parts", *find_built_in_device_kind("H200"), {8, 16, 132})}) {
      const CostModel costs(topology), busy(topology, nullptr, busy_runtime());
      for_each_seed(10, [&](Rng& rng) {
        RandomPipeline p = random_pipeline(graph, rng, topology);
        std::vector<std::set<DeviceId>> of_stage(p.strategy.size());
        const auto devices_of = [&](std::size_t op) -> std::set<DeviceId>& {
          return of_stage[static_cast<std::size_t>(p.options.pipeline->stage_of[op])];
        };
        for (std::size_t op = 0; op < p.strategy.size(); ++op)
          devices_of(op).insert(p.strategy[op].devices.begin(), p.strategy[op].devices.end());
        const bool as_drawn = rng.below(5) == 0;
        for (std::size_t op = 0; op < p.strategy.size() && !as_drawn; ++op) {
          ParallelConfig all = single_device(graph.operators()[op], DeviceId(0));
          all.devices.assign(devices_of(op).begin(), devices_of(op).end());
          const auto shards = static_cast<std::int32_t>(all.devices.size());
          all.degrees[0] = shards;
          if (illegal_degrees(graph.operators()[op], all.degrees)) {
            all.degrees[0] = 1;
            all.replicas = shards;
          }
          p.strategy[op] = all;
        }
        if (rng.below(3) == 0) p.options.pipeline.reset();
        if (rng.below(3) == 0) p.options.recompute = parse_recompute("full");
        Rng apart = rng.split(3);  // seeds keep what else is drawn from them
        if (p.options.pipeline && apart.below(2) == 0) {
          PlanOptions both_ways = p.options;
          both_ways.pipeline->schedule = "dualpipe";
          both_ways.microbatches = 2 * both_ways.pipeline->num_stages();
          both_ways.state_sharding = random_state_sharding(apart);
          if (!illegal(graph, p.strategy, both_ways, topology)) p.options = both_ways;
        }
        if (illegal(graph, p.strategy, p.options, topology)) return;
        const CostModel& used = p.options.microbatches % 2 == 0 ? costs : busy;
        folded += expect_folded_as_whole(graph, used, p.options, p.strategy) > 1 ? 1 : 0;
      });
    }
  }
  if (sanitized || std::getenv("PIPESIM_TEST_SEED") != nullptr) return;  // fewer seeds
  EXPECT_THAT(folded, Ge(5));
}

double folded_to(const OperatorGraph& graph, const Topology& topology, const ReplicaPlan& plan,
                 std::string_view another_runtime = {}) {
  const auto reason = illegal(graph, plan.strategy, plan.options, topology);
  EXPECT_EQ(reason, std::nullopt);
  if (reason) return 0;
  if (!sanitized)
    expect_folded_as_whole(graph, CostModel(topology, nullptr, busy_runtime()), plan.options, plan.strategy);
  if (!sanitized && !another_runtime.empty())
    expect_folded_as_whole(graph, CostModel(topology, nullptr, parse_runtime(another_runtime)), plan.options,
                           plan.strategy);
  return expect_folded_as_whole(graph, CostModel(topology), plan.options, plan.strategy);
}

TEST(Folding, TakesReplicasAndTheirPartsForOneDevice) {
  for (const char* model : {kReplicatedGpt, kReplicatedLlama}) {
    const OperatorGraph graph = make_zoo_model(model);
    // In the first every device has a way of its own to the other stage; in the others those of a node share
    // one, so that only the replicas, which are nodes, are alike.
    for (const auto& [name, least] : {std::pair("dgx-a100:2", 6.0), std::pair("p100-4x4", 1.9),
                                      std::pair("levels:4@100GB/s,4@5GB/s", 1.9)}) {
      const Topology topology = make_topology(name);
      for (const char* schedule : {"1f1b", "eager-1f1b", "interleaved", "gpipe", "zb-h1", "zb-h2",
                                   "zb-auto:2", "zb-v", "dualpipe-v", "chimera", "dualpipe"}) {
        SCOPED_TRACE(fmt::format("{} on {}, {}", model, name, schedule));
        EXPECT_THAT(folded_to(graph, topology, plan_in_both(graph, {4, 2, 2}, schedule)), Ge(least));
      }
    }
  }
}

TEST(Folding, OfManyShapesRunsAsTheWholePlan) {
  const OperatorGraph graph = make_zoo_model(kReplicatedGpt);
  const Topology topology = make_topology("dgx-a100:2");
  for (const ReplicaShape shape : {ReplicaShape{8, 1, 2},
                                   {8, 2, 1},
                                   {1, 1, 16},
                                   {1, 2, 8},
                                   {2, 2, 4},
                                   {1, 4, 4},
                                   {4, 4, 1},
                                   {2, 4, 2},
                                   {1, 8, 2},
                                   {2, 8, 1},
                                   {1, 16, 1}}) {
    for (const char* schedule :
         {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "chimera", "dualpipe"}) {
      if (schedule_kind(schedule).takes_chunks && 4 % shape.pipeline != 0) continue;
      if (std::string_view(schedule).starts_with("dualpipe") && shape.pipeline > 2) continue;
      if (schedule_kind(schedule).both_ways && shape.pipeline % 2 != 0) continue;
      for (const std::int32_t more : {0, 5}) {
        SCOPED_TRACE(fmt::format("{} x {} x {}, {}, {} more", shape.tensor, shape.pipeline, shape.data,
                                 schedule, more));
        const double times = folded_to(graph, topology, plan_in_both(graph, shape, schedule, more));
        EXPECT_THAT(times, Ge(shape.tensor * shape.data >= 8 ? 3 : 1));
        EXPECT_THAT(times, Le(shape.tensor * shape.data));
      }
    }
  }
}

TEST(Folding, OfWhatRunsAgainRunsAsTheWholePlan) {
  const OperatorGraph graph = make_zoo_model(kReplicatedLlama);
  const Topology topology = make_topology("dgx-a100:2");
  for (const char* recompute : {"full", "selective"}) {
    for (const char* schedule :
         {"1f1b", "interleaved", "gpipe", "zb-h1", "zb-v", "dualpipe-v", "chimera", "dualpipe"}) {
      SCOPED_TRACE(fmt::format("{}, {}", recompute, schedule));
      ReplicaPlan plan = plan_in_both(graph, {4, 2, 2}, schedule);
      plan.options.recompute = parse_recompute(recompute);
      EXPECT_THAT(folded_to(graph, topology, plan), Ge(4));
    }
    ReplicaPlan plan = plan_in_both(graph, {8, 1, 2}, "gpipe");
    plan.options.pipeline.reset();
    plan.options.recompute = parse_recompute(recompute);
    EXPECT_THAT(folded_to(graph, topology, plan), Ge(4));
  }
}

TEST(Folding, OfDividedStateRunsAsTheWholePlan) {
  const OperatorGraph graph = make_zoo_model(kReplicatedLlama);
  const Topology topology = make_topology("dgx-a100:2");
  for (const char* sharding :
       {"zero1", "zero2", "zero3", "zero3,reshard=never", "zero3,shard=2,prefetch=0", "zero1,shard=2",
        "zero1,overlap=gather", "zero2,shard=2,overlap=gather,prefetch=0,gather=float32",
        "zero3,weights=float32", "zero3,reshard=last"}) {
    for (const char* schedule :
         {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "chimera", "dualpipe"}) {
      SCOPED_TRACE(fmt::format("{}, {}", sharding, schedule));
      for (const ReplicaShape shape : {ReplicaShape{4, 2, 2}, ReplicaShape{1, 2, 8}, ReplicaShape{2, 1, 8}}) {
        ReplicaPlan plan = plan_in_both(graph, shape, schedule);
        plan.options.state_sharding = parse_state_sharding(sharding);
        if (illegal(graph, plan.strategy, plan.options, topology)) continue;
        constexpr std::string_view kBroadcasts = "pipesim:sharded-weights=broadcast";
        EXPECT_THAT(folded_to(graph, topology, plan, kBroadcasts), Ge(1.9));
        if (shape.pipeline > 1) continue;
        plan.options.pipeline.reset();
        plan.options.recompute = parse_recompute("full");
        EXPECT_THAT(folded_to(graph, topology, plan, kBroadcasts), Ge(1.9));
      }
    }
  }
}

// Folds plans with several stages and with one, whose copies divide state.
void expect_copies_fold(const std::string& model, std::initializer_list<const char*> shardings,
                        DataType gradients, std::string_view runtime) {
  const OperatorGraph graph = make_zoo_model(std::string(kReplicatedLlama) + model);
  const Topology topology = make_topology("dgx-a100:2");
  for (const char* sharding : shardings) {
    for (const ReplicaShape shape : {ReplicaShape{4, 2, 2}, ReplicaShape{2, 1, 8}}) {
      SCOPED_TRACE(sharding);
      ReplicaPlan plan = plan_in_both(graph, shape, "1f1b");
      plan.options.state_sharding = parse_state_sharding(sharding);
      plan.options.gradient_type = gradients;
      EXPECT_THAT(folded_to(graph, topology, plan, runtime), Ge(1.9));
    }
  }
}

TEST(Folding, OfGradientsThatAreWidenedHoldsAsMuchAsTheWholePlan) {
  expect_copies_fold(",dtype=bfloat16", {"none", "zero1", "zero2", "zero3"}, DataType::BFloat16,
                     "deepspeed:step-part=3000,buckets=5000");
  expect_copies_fold(",dtype=bfloat16", {"zero1", "zero2", "zero3"}, DataType::Float32,
                     "deepspeed:buckets=1000,reuse-distance=2000,optimizer-kernel=foreach");
  for (const char* runtime : {"torch-eager", "torch-eager:optimizer-kernel=single"})
    expect_copies_fold(",dtype=bfloat16", {"none", "zero1", "zero3"}, DataType::Float32, runtime);
}

TEST(Folding, OfAdaptersRunsAsTheWholePlan) {
  expect_copies_fold(",lora=4,base=4bit", {"none", "zero1", "zero3", "zero3,reshard=never"},
                     DataType::Float32, {});
}

TEST(Folding, OfProductsInFloat8RunsAsTheWholePlan) {
  const OperatorGraph graph =
      make_zoo_model(std::string(kReplicatedLlama) + ",products=float8,swiglu=fused,swiglu_inputs=float8");
  const Topology topology = make_topology("dgx-h100:2");
  for (const char* recompute : {"none", "selective", "full", "mlp"}) {
    for (const GatheredInputs inputs : {GatheredInputs::Keep, GatheredInputs::Again}) {
      for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "dualpipe-v"}) {
        SCOPED_TRACE(fmt::format("{}, {}", recompute, schedule));
        ReplicaPlan plan = plan_in_both(graph, {4, 2, 2}, schedule);
        plan.options.recompute = parse_recompute(recompute);
        plan.options.gathered_inputs = inputs;
        EXPECT_THAT(folded_to(graph, topology, plan), Ge(1.9));
      }
    }
  }
}

// Each end of the pipeline has all parts of the state of the embedding that both use, and gathers its own.
TEST(Folding, TakesCopiesOfTiedEmbeddingsForOneWhereEachEndGathersThem) {
  const OperatorGraph graph =
      make_zoo_model("gpt:batch=4,sequence=16,layers=4,hidden=32,heads=4,vocab=64,bias=no,projection=tied");
  const Topology topology = make_topology("dgx-a100:2");
  for (const char* sharding : {"zero1", "zero1,overlap=gather", "zero3"}) {
    SCOPED_TRACE(sharding);
    ReplicaPlan plan = plan_in_both(graph, {4, 2, 2}, "1f1b");
    plan.options.state_sharding = parse_state_sharding(sharding);
    EXPECT_THAT(folded_to(graph, topology, plan), Ge(4));
  }
}

// The plans divide the sequence, so that attention gathers keys and values.
TEST(Folding, OfInputsThatAreGatheredAgainRunsAsTheWholePlan) {
  const OperatorGraph graph = make_zoo_model(kReplicatedLlama);
  const Topology topology = make_topology("dgx-a100:2");
  for (const char* recompute : {"none", "selective", "full"}) {
    for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "dualpipe"}) {
      SCOPED_TRACE(fmt::format("{}, {}", recompute, schedule));
      ReplicaPlan plan = plan_in_both(graph, {4, 2, 2}, schedule);
      plan.options.recompute = parse_recompute(recompute);
      plan.options.gathered_inputs = GatheredInputs::Again;
      EXPECT_THAT(folded_to(graph, topology, plan), Ge(4));
      plan.options.pipeline.reset();
      EXPECT_THAT(folded_to(graph, topology, plan), Ge(1.9));
    }
  }
}

// Weights of both ends tied or not, vocabularies that parts share unevenly, gradients in pieces, transfers
// that block devices.
TEST(Folding, OfOtherModelsAndMachinesRunsAsTheWholePlan) {
  TopologyParts blocking = make_topology("dgx-a100:2").parts();
  for (DeviceKind& kind : blocking.kinds) kind.overlap = false;
  for (const Topology& topology : {make_topology("dgx-a100:2"), Topology(std::move(blocking))}) {
    for (const char* model :
         {"gpt:batch=8,layers=2,hidden=64,heads=4,sequence=16,vocab=50,positions=16,projection=untied",
          "gpt:batch=8,layers=2,hidden=64,heads=4,sequence=16,vocab=50,positions=16"}) {
      const OperatorGraph graph = make_zoo_model(model);
      for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "dualpipe"}) {
        SCOPED_TRACE(fmt::format("{}, {}", model, schedule));
        ReplicaPlan plan = plan_in_both(graph, {4, 2, 2}, schedule);
        plan.options.gradient_piece = Bytes(1000);
        EXPECT_THAT(folded_to(graph, topology, plan), Ge(1));
      }
    }
  }
}

bool are_folded(const OperatorGraph& graph, const Topology& topology, const ReplicaPlan& plan, std::int32_t a,
                std::int32_t b) {
  const CostModel costs(topology);
  PlanContents contents(graph, costs, plan.options);
  const auto folding = find_folding(contents, contents.bind(plan.strategy));
  return folding && folding->stands_for(DeviceId(a)) == folding->stands_for(DeviceId(b));
}

TEST(Folding, LeavesApartWhatIsNotAlike) {
  const OperatorGraph graph = make_zoo_model(kReplicatedGpt);
  const Topology topology = make_topology("dgx-a100:2");
  const ReplicaPlan plan = plan_in_both(graph, {4, 2, 2}, "1f1b");
  EXPECT_TRUE(are_folded(graph, topology, plan, 0, 4));
  EXPECT_FALSE(are_folded(graph, topology, plan, 0, 8));  // another stage

  TopologyParts parts = topology.parts();  // slower ways out of one device
  for (Link& link : parts.links) {
    if (link.a == 4 || link.b == 4) link.bandwidth = BytesPerSecond(link.bandwidth.value / 10);
  }
  EXPECT_FALSE(are_folded(graph, Topology(parts), plan, 0, 4));

  parts = topology.parts();  // a device that computes more slowly
  parts.kinds.push_back(parts.kinds.front());
  parts.kinds.back().name = "slow";
  parts.kinds.back().memory_bandwidth = BytesPerSecond(parts.kinds.back().memory_bandwidth.value / 3);
  for (auto& [type, rate] : parts.kinds.back().peak) rate = FlopsPerSecond(rate.value / 3);
  parts.devices[4].kind = static_cast<std::int32_t>(parts.kinds.size()) - 1;
  EXPECT_FALSE(are_folded(graph, Topology(parts), plan, 0, 4));

  ReplicaPlan other = plan;  // one operator on a device less
  ParallelConfig& config = other.strategy.front();
  config = single_device(graph.operators().front(), DeviceId(0));
  config.degrees[0] = 4;
  config.devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  ASSERT_EQ(illegal(graph, other.strategy, other.options, topology), std::nullopt);
  EXPECT_FALSE(are_folded(graph, topology, other, 0, 4));
}

// Operators on any devices, split anyhow.
TEST(Folding, OfRandomStrategiesFindsHardlyAnything) {
  const OperatorGraph graph = make_zoo_model(kReplicatedGpt);
  const Topology topology = make_topology("p100-4x4");
  const CostModel costs(topology);
  std::int64_t folded = 0;
  for_each_seed(20, [&](Rng& rng) {
    PlanOptions options;
    options.microbatches = 2;
    const Strategy strategy = random_strategy(graph, rng, topology.num_devices(), 8);
    folded += expect_folded_as_whole(graph, costs, options, strategy) > 1 ? 1 : 0;
  });
  EXPECT_THAT(folded, Le(2));
}

/// A pattern of sends, each over a link of its own or over shared ones; devices are lanes 0 to 3.
struct Sends {
  struct Send {
    std::uint64_t key;
    Nanoseconds duration;
    DeviceId from, to;
    std::vector<LaneUse> lanes;
    std::vector<std::int32_t> waits;
  };
  std::vector<Send> sends;

  [[nodiscard]] std::optional<LaneClasses> classes() const {
    TaskPattern pattern;
    for (const Send& s : sends) {
      pattern.tasks.push_back(
          {{0, s.key}, s.duration, {}, s.lanes, std::span(&s.from, 1), std::span(&s.to, 1), s.waits});
    }
    const std::vector<std::int32_t> at_first{0, 0, 0, 0, -1, -1};
    const std::vector<DeviceId> working{DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
    return find_lane_classes(at_first, std::span(&pattern, 1), working, 3);
  }
};

TEST(LaneClasses, AreWhatHasTheSameTasksInTheSameOrder) {
  const DeviceId a(0), b(1), c(2), d(3);
  const LaneId first(4), second(5);
  const Sends sends{{{1, 10, a, c, {{first, 10}}, {}},
                     {2, 10, b, d, {{second, 10}}, {}},
                     {3, 20, a, c, {{first, 15}}, {0}},
                     {4, 20, b, d, {{second, 15}}, {1}}}};
  const auto classes = sends.classes();
  ASSERT_TRUE(classes);
  EXPECT_EQ(classes->of_lane, (std::vector<std::int32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(classes->of_task, (std::vector<std::vector<std::int32_t>>{{0, 0, 1, 1}}));

  const auto apart = [&](std::size_t send, auto change) {  // too many classes, or lanes 4 and 5 in two
    Sends changed = sends;
    change(changed.sends[send]);
    const auto found = changed.classes();
    return !found || found->of_lane[4] != found->of_lane[5];
  };
  EXPECT_FALSE(apart(0, [](Sends::Send&) {}));
  EXPECT_TRUE(apart(0, [](Sends::Send& s) { s.duration = 11; }));
  EXPECT_TRUE(apart(0, [](Sends::Send& s) { s.lanes.front().hold = 9; }));
  EXPECT_TRUE(apart(0, [](Sends::Send& s) { s.key = 5; }));  // after the other on its lane
  EXPECT_TRUE(apart(2, [](Sends::Send& s) { s.waits.clear(); }));
  EXPECT_TRUE(apart(2, [](Sends::Send& s) { s.to = DeviceId(1); }));
  EXPECT_TRUE(apart(2, [](Sends::Send& s) { s.lanes.clear(); }));
}

TEST(LaneClasses, NeedTasksThatTakeTimeAndDoNotFollowEachOtherOnALane) {
  const DeviceId a(0), b(1), c(2), d(3);
  const LaneId shared(4);
  // Alike but for which comes first.
  EXPECT_FALSE((Sends{{{1, 10, a, c, {{shared, 10}}, {}}, {2, 10, b, d, {{shared, 10}}, {}}}}.classes()));
  EXPECT_FALSE((Sends{{{1, 0, a, c, {}, {}}, {2, 0, b, d, {}, {}}}}.classes()));
  EXPECT_TRUE((Sends{{{1, 10, a, c, {}, {}}, {2, 10, b, d, {}, {}}}}.classes()));
}

}  // namespace
}  // namespace pipesim
