#include "executor/gpu/machine/emulated_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "executor/cpu/equality.h"
#include "executor/gpu/bodies/links.h"
#include "executor/gpu/gpu_backend.h"
#include "executor/gpu/machine/machine_collectives.h"
#include "executor/run/training.h"
#include "sim/simulate.h"
#include "tests/executor/communication/communicator_conformance.h"
#include "tests/executor/equality_case.h"
#include "tests/executor/gpu/cuda_for_tests.h"
#include "tests/executor/gpu/host_machine.h"
#include "tests/executor/gpu/machine_world.h"
#include "tests/taskgraph/random_strategies.h"

namespace pipesim::gpu {
namespace {

constexpr Nanoseconds kHour = 3'600'000'000'000;

Nanoseconds steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TEST(TakeLinks, StartsTransfersWhenTheSimulatorDoes) {
  constexpr std::size_t lanes = 5;
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  Rng rng(11);
  // No lane is free before: transfers that come now are ready at one time, as those of the graph are.
  const Nanoseconds later = nanoseconds() + kHour;
  std::vector<std::int64_t> free_at(lanes, later);
  std::uint32_t taken = 0;
  std::vector<std::vector<LinkHold>> holds(60);
  std::vector<std::int64_t> end(holds.size());
  TaskDag dag;
  for (std::size_t t = 0; t < holds.size(); ++t) {
    std::vector<LaneUse> uses;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (lane == t % lanes || rng.below(3) == 0)
        uses.push_back({LaneId(lane), static_cast<Nanoseconds>(rng.below(1000))});
    }
    for (const LaneUse& use : uses) holds[t].push_back({use.lane.value, use.hold});
    const auto duration = static_cast<Nanoseconds>(1000 + rng.below(500));
    dag.add_task({0, t}, duration, uses);
    run(*stream, 1,
        TakeLinks{{free_at.data(), &taken},
                  holds[t].data(),
                  static_cast<std::int64_t>(holds[t].size()),
                  duration,
                  &end[t]});
  }
  stream->finish();
  dag.finish();
  const Timeline simulated = simulate(dag);
  for (std::size_t t = 0; t < holds.size(); ++t) EXPECT_EQ(end[t] - later, simulated.end[t]) << t;
  EXPECT_EQ(taken, 0U);
}

TEST(TakeLinks, WaitsForNoOtherLinks) {
  HostMachine machine;
  const auto stream = machine.make_stream(DeviceId(0), StreamUse::Compute);
  const Nanoseconds before = nanoseconds();
  std::array<std::int64_t, 2> free_at{0, before + kHour};
  std::uint32_t taken = 0;
  const LinkHold idle{0, 700}, busy{1, 300};
  std::array<std::int64_t, 2> end{};
  run(*stream, 1, TakeLinks{{free_at.data(), &taken}, &busy, 1, 400, &end[1]});
  run(*stream, 1, TakeLinks{{free_at.data(), &taken}, &idle, 1, 800, &end[0]});
  stream->finish();
  EXPECT_GE(end[0], before + 800);
  EXPECT_LT(end[0], before + kHour);
  EXPECT_EQ(free_at[0], end[0] - 100);
  EXPECT_EQ(end[1], before + kHour + 400);
  EXPECT_EQ(free_at[1], before + kHour + 300);
}

// Messages of 1 MB from device 0 of three, over cables of 1 GB/s.
class Messages {
 public:
  explicit Messages(Machine& machine) : machine_(machine) {
    collectives_ = make_emulated_links(machine_, make_machine_collectives(machine_), topology_);
    for (std::size_t d = 0; d < kDevices; ++d) {
      streams_.push_back(machine_.make_stream(DeviceId(d), StreamUse::Compute));
      events_.push_back(machine_.make_event(DeviceId(d)));
      memory_.push_back(machine_.allocate(DeviceId(d), kSize));
      fill(d, d == 0 ? kSent : 0);
    }
  }
  ~Messages() {
    collectives_.reset();
    streams_.clear();
    for (std::size_t d = 0; d < kDevices; ++d) machine_.release(DeviceId(d), memory_[d], kSize);
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void send(std::size_t to) {
    const std::array group{DeviceId(0), DeviceId(to)};
    const std::array members{CollectiveMember{0, streams_[0].get(), memory_[0], nullptr},
                             CollectiveMember{1, streams_[to].get(), nullptr, memory_[to]}};
    collectives_->run({Collective::Send, {}, DataType::Float32, group, kElements}, members);
  }
  [[nodiscard]] std::unique_ptr<Recording> recorded_send(std::size_t to) {
    machine_.begin_recording(*streams_[0]);
    streams_[0]->record(*events_[0]);
    streams_[to]->wait(*events_[0]);
    send(to);
    streams_[to]->record(*events_[to]);
    streams_[0]->wait(*events_[to]);
    return machine_.end_recording(*streams_[0]);
  }
  void repeat(const Recording& recording) { streams_[0]->repeat(recording); }
  void finish() {
    for (const auto& stream : streams_) stream->finish();
  }
  void fill(std::size_t device, float value) {
    const std::vector<float> content(kElements, value);
    streams_[device]->upload(memory_[device], content.data(), content.size() * sizeof(float));
    streams_[device]->finish();
  }
  [[nodiscard]] bool arrived(std::size_t device) {
    std::vector<float> content(kElements);
    streams_[device]->download(content.data(), memory_[device], content.size() * sizeof(float));
    return content == std::vector<float>(kElements, kSent);
  }

  static constexpr int kDevices = 3;
  static constexpr Nanoseconds kOnACable = 1'000'000;

 private:
  static constexpr std::int64_t kElements = 250'000;
  static constexpr Bytes kSize{kElements * 4};
  static constexpr float kSent = 2.5F;
  Machine& machine_;
  Topology topology_ = make_topology("levels:3@1GB/s");
  std::unique_ptr<Collectives> collectives_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::byte*> memory_;
};

// `exact`: what a machine's own clock shows of a millisecond of the host's.
void expect_time_of_the_bytes(Machine& machine, double exact) {
  Messages messages(machine);
  const auto expect = [&](int on_a_cable, const std::function<void()>& give) {
    const Nanoseconds begin = steady_now();
    give();
    messages.finish();
    EXPECT_GE(static_cast<double>(steady_now() - begin), exact * on_a_cable * Messages::kOnACable);
  };
  expect(1, [&] { messages.send(1); });
  EXPECT_TRUE(messages.arrived(1));
  EXPECT_FALSE(messages.arrived(2));
  messages.fill(1, 0);
  expect(2, [&] { messages.send(1), messages.send(2); });  // over the same cable of device 0
  EXPECT_TRUE(messages.arrived(1) && messages.arrived(2));
  const std::unique_ptr<Recording> recording = messages.recorded_send(1);
  for (int again = 0; again < 3; ++again) {
    messages.fill(1, 0);
    expect(1, [&] { messages.repeat(*recording); });
    EXPECT_TRUE(messages.arrived(1));
  }
}

TEST(EmulatedLinks, TakeAtLeastTheTimeOfTheBytesOneAfterTheOther) {
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    HostMachine machine({.seed = seed});
    expect_time_of_the_bytes(machine, 1);
    EXPECT_EQ(machine.allocated(), 0);
  }
}

TEST(EmulatedLinks, TakeThatTimeBetweenPartsOfAGpu) {
  std::string why;
  const std::unique_ptr<Machine> machine =
      cuda_machine({.devices = Messages::kDevices, .virtual_devices = true}, why);
  if (machine == nullptr) GTEST_SKIP() << why;
  expect_time_of_the_bytes(*machine, 0.99);
}

class EmulatedLinksConformance : public testing::TestWithParam<std::tuple<int, ConformanceCase>> {};

TEST_P(EmulatedLinksConformance, Holds) {
  const auto& [members, conformance] = GetParam();
  const std::uint64_t seed = 20240100 + static_cast<std::uint64_t>(members);
  const Topology topology = make_topology("p100-4x4:2");
  HostMachine machine({.seed = seed});
  const std::unique_ptr<Collectives> collectives =
      make_emulated_links(machine, make_machine_collectives(machine), topology);
  MachineWorld world(machine, *collectives, members);
  EXPECT_NO_THROW(in_threads(
      members, [&, &conformance = conformance](int device) { conformance.run(*world.member(device), seed); },
      [&](const std::string& reason) { world.abort(reason); }));
}

INSTANTIATE_TEST_SUITE_P(Devices, EmulatedLinksConformance,
                         testing::Combine(testing::Values(1, 3),
                                          testing::ValuesIn(conformance_cases().begin(),
                                                            conformance_cases().end())),
                         [](const auto& tested) {
                           return std::get<1>(tested.param).name + std::to_string(std::get<0>(tested.param));
                         });

// Notes the sizes of all calls.
class WatchedCollectives : public Collectives {
 public:
  explicit WatchedCollectives(std::unique_ptr<Collectives> collectives)
      : collectives_(std::move(collectives)) {}
  void prepare(std::span<const std::vector<DeviceId>> groups) override { collectives_->prepare(groups); }
  void run(const CollectiveCall& call, std::span<const CollectiveMember> members) override {
    sizes.push_back(size_on_links(call));
    collectives_->run(call, members);
  }
  void abort(const std::string& reason) noexcept override { collectives_->abort(reason); }
  void require_peers() const override { collectives_->require_peers(); }

  std::vector<Bytes> sizes;

 private:
  std::unique_ptr<Collectives> collectives_;
};

// A model and four devices with slow cables between them.
struct SlowlyLinked {
  OperatorGraph graph = make_zoo_model("mlp:batch=8,layers=2,hidden=64,features=64,classes=8");
  Topology topology = make_topology("levels:4@1MB/s");
  CostModel costs{topology};
  ThreadWorld world{4};
  SyntheticSource source{graph};
};

// Its plan on the simulated machine, with links emulated.
class LinkedPlan {
 public:
  static constexpr std::uint64_t kSeed = 7;
  LinkedPlan(const SlowlyLinked& c, const Strategy& strategy, bool recorded)
      : collectives_(make_emulated_links(machine_, make_machine_collectives(machine_), c.topology)),
        backend_(c.graph, machine_, collectives_, Optimizer::Momentum, {{}, false, nullptr, recorded}),
        training_(c.graph, c.costs, {}, strategy,
                  Training::Setting{
                      backend_, c.source, {}, c.world.devices(), kSeed, SumOrder::Ascending, {}, true},
                  [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); }) {
    training_.keep_values(Training::Keep::Everything);
  }
  [[nodiscard]] Training& training() { return training_; }
  [[nodiscard]] const WatchedCollectives& collectives() const { return collectives_; }

  // What the busiest lane of a link carries, without what rounding may have added.
  [[nodiscard]] Nanoseconds busiest_link(const Topology& topology) const {
    const TaskDag& dag = training_.tasks().dag;
    std::vector<Nanoseconds> held(topology.num_lanes(), 0);
    for (std::size_t t = 0; t < dag.num_tasks(); ++t) {
      for (const LaneUse& use : dag.lanes(TaskId(t))) {
        if (use.lane.index() >= topology.num_devices())
          held[use.lane.index()] += std::max<Nanoseconds>(0, use.hold - 1);
      }
    }
    return *std::ranges::max_element(held);
  }

 private:
  HostMachine machine_;
  WatchedCollectives collectives_;
  GpuBackend backend_;
  Training training_;
};

class EmulatedLinksOfPlans : public testing::TestWithParam<bool> {};

TEST_P(EmulatedLinksOfPlans, TakeTheirTimeAndChangeNoResult) {
  const SlowlyLinked c;
  UnsplitReference reference(c.graph, c.costs, {}, unpinned(), c.source, c.world.worlds(), LinkedPlan::kSeed);
  std::vector<StepValues> expected;
  std::vector<RoundingNoise> noise;
  for (int step = 0; step < 3; ++step) {
    reference.step();
    expected.push_back(reference.values());
    noise.push_back(reference.noise());
  }
  Rng rng(12);
  for (int plan = 0; plan < 3; ++plan) {
    LinkedPlan linked(c, without_rings(random_strategy(c.graph, rng, 4, 4)), GetParam());
    const Nanoseconds busiest = linked.busiest_link(c.topology);
    EXPECT_GT(busiest, 1'000'000);  // else nothing is told
    for (std::size_t step = 0; step < expected.size(); ++step) {
      const Nanoseconds begin = steady_now();
      linked.training().step();
      EXPECT_GE(steady_now() - begin, busiest) << "plan " << plan << ", step " << step;
      const StepEquality e = compare(linked.training(), linked.training().values().outputs, expected[step],
                                     noise[step], c.graph);
      EXPECT_TRUE(UnsplitReference::equal(e)) << e.worst.name << " differs by " << e.worst.error;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, EmulatedLinksOfPlans, testing::Bool());

TEST(EmulatedLinks, CountTheBytesOfAllBlocks) {
  const std::array group{DeviceId(0), DeviceId(1), DeviceId(2)};
  const auto size = [&](Collective kind) {
    return size_on_links({kind, {}, DataType::Float32, group, 10}).value;
  };
  for (const Collective whole : {Collective::AllReduce, Collective::Broadcast, Collective::Reduce})
    EXPECT_EQ(size(whole), 40);
  EXPECT_EQ(size(Collective::ReduceScatter), 120);
  EXPECT_EQ(size(Collective::AllGather), 120);
  EXPECT_EQ(size(Collective::AllToAll), 360);
}

TEST(EmulatedLinks, CountBytesAsTheCostModelDoes) {
  const EqualityCase c("gpt:batch=4,layers=1,hidden=16,heads=4,vocab=48,sequence=8,positions=8");
  Rng rng(13);
  std::set<Collective> kinds;
  for (int plan = 0; plan < 8; ++plan) {
    HostMachine machine;
    WatchedCollectives collectives(make_machine_collectives(machine));
    GpuBackend backend(c.graph, machine, collectives, Optimizer::Momentum, {});
    Training training(
        c.graph, c.costs, {}, without_rings(random_strategy(c.graph, rng, most_devices, 8)),
        Training::Setting{backend, c.source, {}, c.world.devices(), 7, SumOrder::Ascending, {}, true},
        [](const TaskDag&, std::span<const TaskId>) { return std::make_unique<RealPace>(); });
    training.step();
    std::size_t call = 0;
    for (const TaskId task : training.program().order) {
      const TaskLabel& label = training.tasks().labels[task.index()];
      if (!is_communication(label.kind)) continue;
      ASSERT_LT(call, collectives.sizes.size());
      EXPECT_EQ(collectives.sizes[call++], label.size) << name_of(label.collective);
      kinds.insert(label.collective);
    }
    EXPECT_EQ(call, collectives.sizes.size());
  }
  EXPECT_GE(kinds.size(), 3U);
}

}  // namespace
}  // namespace pipesim::gpu
