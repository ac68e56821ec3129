#include "executor/measuring/prediction_interval.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

constexpr Nanoseconds each_task = 1'000'000;

CalibrationKey key_of(std::int64_t elements) {
  return update_key(Optimizer::Sgd, elements, DataType::Float32, "cpu");
}

// One device, one task after the other; the n-th has the n-th key.
struct SerialTasks {
  TaskDag dag;
  TaskDurations durations;
};

SerialTasks serial_tasks(std::size_t tasks) {
  SerialTasks c;
  for (std::size_t t = 0; t < tasks; ++t) {
    c.dag.add_task({t, 0}, each_task, LaneId(0));
    if (t > 0) c.dag.add_edge(TaskId(t - 1), TaskId(t));
    c.durations.keys.push_back({key_of(static_cast<std::int64_t>(t)), {}, {}});
    c.durations.units.push_back({t, DeviceId(0), {TaskId(t)}});
    c.durations.unit_of_task.push_back(static_cast<std::int32_t>(t));
  }
  c.dag.finish();
  return c;
}

// Durations of the first `keys` tasks: from 0.8 to 1.2 times the median, evenly.
Calibration uneven_durations(std::size_t keys) {
  Calibration calibration;
  calibration.runs.emplace_back();
  for (std::size_t k = 0; k < keys; ++k) {
    std::vector<double> seconds;
    for (int i = -20; i <= 20; ++i) seconds.push_back(1e-3 * (1 + 0.01 * i));
    calibration.add({key_of(static_cast<std::int64_t>(k)), {}, std::move(seconds), 0});
  }
  return calibration;
}

PredictedInterval interval(const SerialTasks& c, const Calibration& calibration, std::uint64_t seed = 1) {
  return predict_interval(c.dag, c.durations, calibration, 400, Rng(seed));
}

double relative(Nanoseconds time, const SerialTasks& c) {
  return static_cast<double>(time) / static_cast<double>(each_task) / static_cast<double>(c.dag.num_tasks());
}

TEST(PredictionInterval, IsThatOfTheTaskWhereThereIsOne) {
  const SerialTasks c = serial_tasks(1);
  const PredictedInterval i = interval(c, uneven_durations(1));
  EXPECT_EQ(i.iterations, 400);
  EXPECT_NEAR(relative(i.low, c), 0.82, 0.02);
  EXPECT_NEAR(relative(i.median, c), 1, 0.03);
  EXPECT_NEAR(relative(i.high, c), 1.18, 0.02);
}

// Variance of a sum of n tasks with correlation ½: ½ + ½/n of that of n equal ones.
TEST(PredictionInterval, OfManyTasksIsNarrowerButDoesNotVanish) {
  const SerialTasks c = serial_tasks(50);
  const PredictedInterval i = interval(c, uneven_durations(50));
  EXPECT_GT(relative(i.low, c), 0.82);
  EXPECT_LT(relative(i.low, c), 0.92);
  EXPECT_GT(relative(i.high, c), 1.08);
  EXPECT_LT(relative(i.high, c), 1.18);
}

TEST(PredictionInterval, HasNoWidthWhereNothingVaries) {
  Calibration steady;
  steady.runs.emplace_back();
  for (int k = 0; k < 3; ++k) steady.add({key_of(k), {}, {2e-3, 2e-3}, 0});
  const PredictedInterval i = interval(serial_tasks(3), steady);
  EXPECT_EQ(i.low, 3 * each_task);
  EXPECT_EQ(i.median, 3 * each_task);
  EXPECT_EQ(i.high, 3 * each_task);
}

TEST(PredictionInterval, LetsOtherTasksVaryLikeTheMeasuredOnes) {
  const SerialTasks c = serial_tasks(2);
  const PredictedInterval half = interval(c, uneven_durations(1)), all = interval(c, uneven_durations(2));
  EXPECT_NEAR(relative(half.high, c), relative(all.high, c), 0.02);
}

TEST(PredictionInterval, IsTheSameForTheSameSeed) {
  const SerialTasks c = serial_tasks(5);
  const PredictedInterval a = interval(c, uneven_durations(5)), b = interval(c, uneven_durations(5));
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_NE(a.high, interval(c, uneven_durations(5), 2).high);
}

TEST(PredictionInterval, NeedsAMeasuredTask) { EXPECT_EQ(interval(serial_tasks(2), {}).iterations, 0); }

}  // namespace
}  // namespace pipesim
