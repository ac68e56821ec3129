#include "executor/measuring/step_sampling.h"

#include <gmock/gmock.h>

#include "executor/measuring/sample_set.h"
#include "executor/run/emulation.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "tests/executor/communication/threads_of_one_process.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

// A plan on emulated devices of one host, on a virtual clock.
class EmulatedPlan {
 public:
  EmulatedPlan(const OperatorGraph& graph, const Topology& topology, const Calibration* calibration,
               const Strategy& strategy)
      : costs_(topology, calibration),
        world_(topology.num_devices()),
        source_(graph),
        training_(graph, costs_, {}, strategy, {backend_, source_, world_.worlds(), world_.devices(), 1},
                  [&](const TaskDag& dag, std::span<const TaskId> order) {
                    return std::make_unique<EmulatedPace>(dag, order,
                                                          std::vector<double>(topology.num_devices(), 1.0),
                                                          EmulatedPace::Sleep::Never);
                  }),
        durations_(task_durations(training_.expanded(), training_.program(), KeyPlace::Topology)) {}

  [[nodiscard]] const TaskDurations& durations() const { return durations_; }
  [[nodiscard]] Training& training() { return training_; }
  std::vector<Measurement> sample(std::int64_t steps = 2) {
    return sample_steps(training_, durations_, {0, steps, 0}).measurements;
  }

 private:
  CostModel costs_;
  ThreadWorld world_;
  EmulatedBackend backend_;
  SyntheticSource source_;
  Training training_;
  TaskDurations durations_;
};

Calibration with_a_run() {
  Calibration calibration;
  calibration.runs.emplace_back();
  return calibration;
}

// Random durations for everything that the plan asks for. The plan's communication may depend on the
// durations of transfers, so that new keys come up. Whole microseconds, so that little is rounded.
Calibration random_durations(const OperatorGraph& graph, const Topology& topology, const Strategy& strategy,
                             Rng& rng) {
  Calibration calibration = with_a_run();
  std::map<CalibrationKey, double> given;
  for (bool complete = false; !complete;) {
    complete = true;
    const EmulatedPlan plan(graph, topology, &calibration, strategy);
    for (const TaskDurations::Key& key : plan.durations().keys) {
      if (calibration.keys.contains(key.key)) continue;
      CalibrationKey any_type = key.key;  // of transfers: types are not told apart
      if (any_type.subject == CalibrationKey::Subject::Transfer) any_type.type = DataType::Float32;
      const double seconds =
          given.try_emplace(any_type, 1e-6 * static_cast<double>(rng.between(100, 900))).first->second;
      calibration.add({key.key, key.work, {seconds}, 0});
      complete = false;
    }
  }
  return calibration;
}

std::map<CalibrationKey, double> medians(const std::vector<Measurement>& measurements) {
  std::map<CalibrationKey, double> result;
  for (const Measurement& m : measurements) result[m.key] = Distribution(m.seconds).median().value;
  return result;
}

class SampledZoo : public testing::TestWithParam<const char*> {};

TEST_P(SampledZoo, ReturnsTheDurationsThatTheRunWasGiven) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  const Topology topology = make_topology("cpu:4");
  for_each_seed(3, [&](Rng& rng) {
    const Strategy strategy = random_strategy(graph, rng, 4, 4);
    const Calibration given = random_durations(graph, topology, strategy, rng);
    EmulatedPlan plan(graph, topology, &given, strategy);
    const auto measured = medians(plan.sample());
    EXPECT_GT(measured.size(), graph.operators().size());
    for (const auto& [key, seconds] : measured) {
      constexpr double rounding = 20e-9;
      EXPECT_NEAR(seconds, given.keys.at(key).durations().median().value, rounding) << key.str();
    }
  });
}

TEST_P(SampledZoo, PredictsTheRunFromItsSamples) {
  const OperatorGraph graph = make_zoo_model(GetParam());
  const Topology topology = make_topology("cpu:2");
  for_each_seed(3, [&](Rng& rng) {
    const Strategy strategy = random_strategy(graph, rng, 2, 2);
    EmulatedPlan plan(graph, topology, nullptr, strategy);
    Calibration calibration = with_a_run();
    for (const Measurement& m : plan.sample()) calibration.add(m);
    EmulatedPlan again(graph, topology, &calibration, strategy);
    // Not exactly: shards at an edge and in the middle have the same key, their mean is what is kept.
    const auto emulated = static_cast<double>(plan.training().simulated().makespan);
    EXPECT_NEAR(static_cast<double>(again.training().simulated().makespan), emulated, 0.005 * emulated);
    for (const TaskDurations::Key& key : again.durations().keys)
      EXPECT_EQ(key.estimate.source, DurationSource::Measured) << key.key.str();
  });
}

INSTANTIATE_TEST_SUITE_P(Zoo, SampledZoo, testing::ValuesIn(small_models));

class Sampling : public testing::Test {
 protected:
  const OperatorGraph graph = make_zoo_model(small_models[0]);
  const Topology topology = make_topology("cpu:2");
  EmulatedPlan plan{graph, topology, nullptr, data_parallel(graph, 2)};
};

TEST_F(Sampling, TakesASamplePerKeyDeviceAndStep) {
  for (const Measurement& m : plan.sample(3)) {
    const bool transfer = m.key.subject == CalibrationKey::Subject::Transfer;
    EXPECT_EQ(m.seconds.size(), transfer ? 3U : 6U) << m.key.str();
    EXPECT_EQ(m.dropped, 0);
    EXPECT_EQ(m.key.busy_neighbours, transfer ? 0 : 1);
  }
}

TEST_F(Sampling, DropsTasksThatWereInterrupted) {
  StepRecord step = plan.training().step();
  StepSampling sampling(plan.durations());
  sampling.add(step);
  EXPECT_TRUE(sampling.complete());
  const auto before = sampling.measurements();
  for (InstructionTime& t : step.times) t.interrupted = true;
  sampling.add(step);
  for (std::size_t k = 0; k < before.size(); ++k) {
    EXPECT_EQ(sampling.measurements()[k].seconds, before[k].seconds);
    EXPECT_GT(sampling.measurements()[k].dropped, 0);
  }
}

TEST_F(Sampling, IsIncompleteWithoutACleanSample) {
  StepRecord step = plan.training().step();
  StepSampling sampling(plan.durations());
  for (InstructionTime& t : step.times) t.interrupted = true;
  sampling.add(step);
  EXPECT_FALSE(sampling.complete());
  SampleSet set;
  set.add(sampling.measurements());
  Calibration calibration = with_a_run();
  EXPECT_THROW(calibration.add(set.all().front()), InputError);
}

TEST(SampleSet, PutsSamplesOfAKeyTogether) {
  const CalibrationKey a = update_key(Optimizer::Adam, 10, DataType::Float32, "cpu"),
                       b = update_key(Optimizer::Adam, 20, DataType::Float32, "cpu");
  SampleSet set;
  set.add(std::vector<Measurement>{{a, {}, {1, 2}, 1}, {b, {}, {}, 4}});
  set.add(std::vector<Measurement>{{a, {}, {3}, 2}});
  const auto all = set.all();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_THAT(all[0].seconds, testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(all[0].dropped, 3);
  EXPECT_EQ(all[1].key, b);
  EXPECT_EQ(all[1].dropped, 4);
}

}  // namespace
}  // namespace pipesim
