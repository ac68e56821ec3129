#include "executor/gpu/stream_execution.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "executor/gpu/machine/machine_collectives.h"
#include "executor/run/training.h"
#include "sim/base/errors.h"
#include "tests/executor/equality_case.h"
#include "tests/executor/gpu/host_machine.h"
#include "tests/refusal.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "tests/taskgraph/replica_plans.h"

namespace pipesim::gpu {
namespace {

constexpr const char* kModel = "gpt:batch=4,layers=1,hidden=16,heads=4,vocab=48,sequence=8,positions=8";

// A plan on the simulated machine in host memory.
class StreamedPlan {
 public:
  StreamedPlan(const EqualityCase& c, const Strategy& strategy, const HostMachine::Settings& machine,
               const GpuBackend::Settings& backend = {}, const PlanOptions& options = {})
      : machine_(machine),
        collectives_(make_machine_collectives(machine_)),
        backend_(c.graph, machine_, *collectives_, Optimizer::Momentum, backend),
        training_(std::make_unique<Training>(
            c.graph, c.costs, options, strategy,
            Training::Setting{backend_, c.source, {}, c.world.devices(), 7, SumOrder::Ascending, {}, true},
            [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); })) {
    training_->keep_values(Training::Keep::Everything);
  }
  [[nodiscard]] Training& training() { return *training_; }
  [[nodiscard]] HostMachine& machine() { return machine_; }
  [[nodiscard]] GpuBackend& backend() { return backend_; }
  void end() { training_.reset(); }

 private:
  HostMachine machine_;
  std::unique_ptr<Collectives> collectives_;
  GpuBackend backend_;
  std::unique_ptr<Training> training_;
};

void expect_same_values(const StepValues& a, const StepValues& b, const OperatorGraph& graph) {
  for (const TensorError& e : differences(a, b, graph)) EXPECT_EQ(e.error, 0) << e.name;
}

Strategy some_strategy(const EqualityCase& c, std::uint64_t seed) {
  Rng rng(seed);
  return without_rings(random_strategy(c.graph, rng, most_devices, 8));
}

TEST(StreamExecution, DoesNotDependOnTheOrderThatStreamsLeaveOpen) {
  const EqualityCase c(kModel);
  const Strategy strategy = some_strategy(c, 3);
  StreamedPlan first(c, strategy, {.seed = 1});
  first.training().step();
  for (std::uint64_t seed = 2; seed < 5; ++seed) {
    StreamedPlan again(c, strategy, {.seed = seed});
    again.training().step();
    expect_same_values(again.training().values(), first.training().values(), c.graph);
  }
}

TEST(StreamExecution, RefusesRings) {
  const EqualityCase c(kModel);
  Strategy strategy;
  std::string attention;
  for (const Operator& op : c.graph.operators()) {
    ParallelConfig& config = strategy.emplace_back(single_device(op, DeviceId(0)));
    if (op.kind != "attention") continue;
    attention = op.name;
    config.degrees[static_cast<std::size_t>(op.factor("s"))] = 2;
    config.devices.emplace_back(1);
    config.ring = true;
  }
  EXPECT_EQ(
      refusal([&] { const StreamedPlan plan(c, strategy, {.seed = 1}); }),
      "operator \"" + attention +
          "\" (attention) has no GPU kernel for keys that pass round a ring; plans without \"ring\" gather "
          "them");
}

// Gathers of weights and sums of their gradients wait for all that they need.
TEST(StreamExecution, OfDividedStateDoesNotDependOnThatOrder) {
  const EqualityCase c(kModel);
  Strategy copies;
  for (const Operator& op : c.graph.operators()) copies.push_back(in_both(op, 0, 4, 2));
  for (const char* sharding : {"zero1", "zero2", "zero3", "zero3,reshard=never,prefetch=2",
                               "zero3,weights=float32,gather=float32", "zero2,overlap=gather"}) {
    SCOPED_TRACE(sharding);
    PlanOptions options;
    options.microbatches = 3;
    options.state_sharding = parse_state_sharding(sharding);
    StreamedPlan first(c, copies, {.seed = 1}, {}, options);
    for (int step = 0; step < 2; ++step) first.training().step();
    for (std::uint64_t seed = 2; seed < (sanitized ? 3 : 6); ++seed) {
      StreamedPlan again(c, copies, {.seed = seed}, {}, options);
      for (int step = 0; step < 2; ++step) again.training().step();
      expect_same_values(again.training().values(), first.training().values(), c.graph);
    }
  }
}

TEST(StreamExecution, RepeatsRecordedStepsWithTheNumbersOfNewOnes) {
  const EqualityCase c(kModel);
  const Strategy strategy = some_strategy(c, 4);
  StreamedPlan plain(c, strategy, {.seed = 1}),
      recorded(c, strategy, {.seed = 2}, {{}, false, nullptr, true});
  for (int step = 0; step < 4; ++step) {
    plain.training().step();
    const StepRecord record = recorded.training().step();
    EXPECT_EQ(record.times.empty(), step > 0);
    EXPECT_GT(record.makespan, 0);
    expect_same_values(recorded.training().values(), plain.training().values(), c.graph);
  }
}

// A graph's events cost as much as small work.
TEST(StreamExecution, RecordsOnlyEventsThatSomebodyWaitsFor) {
  const EqualityCase c(kModel);
  StreamedPlan plan(c, some_strategy(c, 4), {.seed = 2}, {{}, false, nullptr, true});
  const auto pieces_of_step = [&] {
    const std::int64_t before = plan.machine().done();
    plan.training().step();
    return plan.machine().done() - before;
  };
  std::int64_t instructions = 0;
  for (const DeviceProgram& device : plan.training().program().devices) {
    instructions += std::ssize(device.compute);
    for (const auto& stream : device.streams) instructions += std::ssize(stream);
  }
  const std::int64_t first = pieces_of_step(), recorded = pieces_of_step(), repeated = pieces_of_step();
  EXPECT_EQ(recorded, repeated);
  EXPECT_LT(repeated, first - instructions);
}

TEST(StreamExecution, TimesFollowTheTasks) {
  const EqualityCase c(kModel);
  StreamedPlan plan(c, some_strategy(c, 5), {.seed = 3});
  const StepRecord record = plan.training().step();
  std::map<std::pair<TaskId, DeviceId>, const InstructionTime*> times;
  for (const InstructionTime& t : record.times) times[{t.task, t.device}] = &t;
  std::size_t waits = 0;
  for (const DeviceProgram& device : plan.training().program().devices) {
    const auto check = [&](const std::vector<Instruction>& list) {
      Nanoseconds before = 0;
      for (const Instruction& i : list) {
        const InstructionTime& t = *times.at({i.task, device.device});
        EXPECT_GE(t.start, before);
        EXPECT_GE(t.start, t.ready);
        EXPECT_GE(t.end, t.start);
        for (const TaskId awaited : i.waits) {
          EXPECT_LE(times.at({awaited, device.device})->end, t.start);
          ++waits;
        }
        before = t.end;
      }
    };
    check(device.compute);
    for (const auto& stream : device.streams) check(stream);
  }
  EXPECT_GT(waits, 10U);
}

// Tells of the host's machine what CUPTI tells of GPUs, by a clock of its own.
class HostActivity : public ActivityCollector {
 public:
  static constexpr Nanoseconds kLater = 1'000'000;
  explicit HostActivity(HostMachine& machine, bool refuses = false) : machine_(machine), refuses_(refuses) {}
  [[nodiscard]] std::uint32_t api_version() const override { return 1; }
  [[nodiscard]] std::string unavailable() const override { return refuses_ ? "it refuses" : ""; }
  bool start() override {
    static_cast<void>(machine_.take_done());
    return !refuses_;
  }
  void stop() override {}
  CollectedActivity collect() override {
    CollectedActivity collected;
    for (const HostMachine::Done& done : machine_.take_done()) {
      const std::uint64_t correlation = collected.records.size() + 1;
      collected.records.push_back({correlation, kLater + done.time, kLater + done.time + 1});
      collected.correlations.push_back({correlation, done.task});
      tasks.insert(done.task);
    }
    return collected;
  }
  void begin_task(std::uint64_t external) override { machine_.of_task(external); }
  void end_task() override { machine_.of_task(0); }

  std::set<std::uint64_t> tasks;  // that were told of

 private:
  HostMachine& machine_;
  bool refuses_;
};

// Collectives that send what was put together for them.
std::set<std::pair<TaskId, DeviceId>> packed_collectives(const Program& program) {
  std::set<std::pair<TaskId, DeviceId>> found;
  for (const DeviceProgram& device : program.devices) {
    for (const auto& stream : device.streams) {
      for (const Instruction& i : stream) {
        if (!i.before.empty() && std::holds_alternative<CommunicationWork>(i.work))
          found.emplace(i.task, device.device);
      }
    }
  }
  return found;
}

TEST(StreamExecution, TakesTimesOfWhatTheProfilerSaw) {
  const EqualityCase c(kModel);
  const Strategy strategy = some_strategy(c, 9);
  StreamedPlan events(c, strategy, {.seed = 7}), profiled(c, strategy, {.seed = 7}),
      refused(c, strategy, {.seed = 7});
  HostActivity activity(profiled.machine()), none(refused.machine(), true);
  profiled.backend().take_times_by(&activity);
  refused.backend().take_times_by(&none);
  const StepRecord plain = events.training().step(), seen = profiled.training().step();
  const StepRecord unseen = refused.training().step();
  ASSERT_EQ(seen.times.size(), plain.times.size());
  EXPECT_GT(activity.tasks.size(), plain.times.size() / 4);
  std::map<std::pair<TaskId, DeviceId>, InstructionTime> by_events;
  for (const InstructionTime& t : plain.times) by_events[{t.task, t.device}] = t;
  std::size_t closer = 0;
  for (const InstructionTime& t : seen.times) {
    const InstructionTime& e = by_events.at({t.task, t.device});
    EXPECT_GE(t.start, t.ready);
    EXPECT_LE(t.end - t.start, e.end - e.start);  // without what is only noted
    closer += t.end - t.start < e.end - e.start ? 1 : 0;
  }
  EXPECT_GT(closer, activity.tasks.size() / 2);
  // Moves before a collective are not all of it.
  const auto collectives = packed_collectives(profiled.training().program());
  EXPECT_GT(collectives.size(), 2U);
  for (const InstructionTime& t : seen.times) {
    if (!collectives.contains({t.task, t.device})) continue;
    EXPECT_GE(t.end, by_events.at({t.task, t.device}).end);
  }
  for (std::size_t i = 0; i < plain.times.size(); ++i) {
    EXPECT_EQ(unseen.times[i].start, plain.times[i].start);
    EXPECT_EQ(unseen.times[i].end, plain.times[i].end);
  }
  expect_same_values(profiled.training().values(), events.training().values(), c.graph);
}

GpuBackend::Settings behind_the_host() {
  GpuBackend::Settings waiting;
  waiting.hold = kHoldForHost;
  return waiting;
}

TEST(StreamExecution, ComputesTheSameWhenDevicesWaitForTheHost) {
  const EqualityCase c(kModel);
  const Strategy strategy = some_strategy(c, 4);
  StreamedPlan plain(c, strategy, {.seed = 1}), waiting(c, strategy, {.seed = 2}, behind_the_host());
  for (int step = 0; step < 2; ++step) {
    EXPECT_FALSE(plain.training().step().outran_host);
    EXPECT_FALSE(waiting.training().step().outran_host);
    expect_same_values(waiting.training().values(), plain.training().values(), c.graph);
  }
}

// Before each instruction is enqueued, the devices do all that they may.
TEST(StreamExecution, HoldsDevicesUntilTheHostHasEnqueuedTheStep) {
  const EqualityCase c(kModel);
  StreamedPlan plan(c, some_strategy(c, 4), {.seed = 2}, behind_the_host());
  plan.training().step();
  std::set<std::int64_t> done;
  std::size_t tasks = 0;
  plan.training().execution().on_task([&](DeviceId, TaskId) {
    while (plan.machine().do_what_may_begin()) {
    }
    done.insert(plan.machine().done());
    ++tasks;
  });
  EXPECT_FALSE(plan.training().step().outran_host);
  EXPECT_GT(tasks, 10U);
  EXPECT_EQ(done.size(), 1U);
}

TEST(StreamExecution, LetsDevicesBeginWhenTheyTakeNoMoreWork) {
  const EqualityCase c(kModel);
  const Strategy strategy = some_strategy(c, 4);
  StreamedPlan plain(c, strategy, {.seed = 1}), full(c, strategy, {.seed = 2, .room = 12}, behind_the_host());
  for (int step = 0; step < 2; ++step) {
    plain.training().step();
    EXPECT_TRUE(full.training().step().outran_host);
    expect_same_values(full.training().values(), plain.training().values(), c.graph);
  }
}

TEST(StreamExecution, DoesNotHoldDevicesAfterAnError) {
  const EqualityCase c(kModel);
  StreamedPlan plan(c, some_strategy(c, 4), {.seed = 2}, behind_the_host());
  plan.training().step();
  int left = 10;
  plan.training().execution().on_task([&](DeviceId, TaskId) {
    if (--left == 0) throw DeviceError("it fails here");
  });
  EXPECT_EQ(refusal<DeviceError>([&] { plan.training().step(); }), "it fails here");
  const std::int64_t before = plan.machine().done();
  while (plan.machine().do_what_may_begin()) {
  }
  EXPECT_GT(plan.machine().done(), before);
  EXPECT_FALSE(plan.machine().waits());
}

TEST(StreamExecution, FillsLargeTensorsPartAfterPart) {
  const EqualityCase c("mlp:batch=8,layers=1,hidden=1300");
  StreamedPlan plan(c, some_strategy(c, 4), {.seed = 2});
  plan.training().step();
  std::size_t in_parts = 0;
  for (const Loaded& l : plan.training().program().loaded) {
    if (l.content != Loaded::Content::Weight) continue;
    std::size_t parts = 0;
    Execution& execution = plan.training().execution();
    const auto fill = [&](const HostPiece& piece) { c.source.fill(l.content, l.tensor, piece, {}); };
    execution.fill(l.view, [&](const HostPiece& piece) {
      fill(piece);
      ++parts;
    });
    in_parts += parts > 1 ? 1 : 0;
    execution.read(l.view, [&](const HostPiece& found) {
      const auto elements = static_cast<std::size_t>(found.box.elements());
      ASSERT_EQ(found.type, DataType::Float32);
      std::vector<float> expected(elements);
      fill({reinterpret_cast<std::byte*>(expected.data()), found.type, found.box});
      const auto* numbers = reinterpret_cast<const float*>(found.memory);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), numbers));
    });
  }
  EXPECT_GT(in_parts, 0U);
}

TEST(StreamExecution, GivesAllMemoryBack) {
  const EqualityCase c(kModel);
  StreamedPlan plan(c, some_strategy(c, 6), {.seed = 4});
  plan.training().step();
  EXPECT_GT(plan.machine().allocated(), 0);
  plan.end();
  EXPECT_EQ(plan.machine().allocated(), 0);
}

TEST(StreamExecution, SaysWhatDidNotFit) {
  const EqualityCase c(kModel);
  const Strategy strategy = some_strategy(c, 7);
  EXPECT_THAT(
      refusal([&] { StreamedPlan(c, strategy, {.seed = 5, .memory = 1000}); }),
      testing::MatchesRegex("out of memory on host: device 0 is predicted to need .* [kM]B and asks for "
                            ".* [kM]B, 1 kB are free; device 1 .*; take a smaller batch, or .*"));
  EXPECT_THAT(
      refusal<DeviceError>(
          [&] { StreamedPlan(c, strategy, {.seed = 5, .memory = 1'000'000'000, .hidden = 999'999'000}); }),
      testing::MatchesRegex("out of memory: device . asked for .*, for all its buffers, and was "
                            "refused; it is predicted to need .* [kM]B, and 1 GB are reported free: .*"));
}

TEST(StreamExecution, NamesTheFirstTensorThatLosesItsNumbers) {
  const EqualityCase c(kModel);
  GpuBackend::Settings watching;
  watching.watch_for_nan = true;
  watching.optimizer.learning_rate = 1e30F;
  StreamedPlan plan(c, some_strategy(c, 8), {.seed = 6}, watching);
  const std::string said = refusal<DeviceError>([&] {
    for (int step = 0; step < 3; ++step) plan.training().step();
  });
  EXPECT_THAT(said, testing::StartsWith("the first tensor that became NaN is "));
  EXPECT_THAT(refusal<DeviceError>([&] { plan.training().step(); }),
              testing::HasSubstr("a step was asked for after one that failed"));
}

}  // namespace
}  // namespace pipesim::gpu
