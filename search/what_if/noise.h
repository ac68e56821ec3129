#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "search/evaluator.h"

namespace pipesim {

/// How much longer or shorter than predicted things take, from one iteration to the next. Factors are
/// log-normal with mean 1; a spread s is the standard deviation of their logarithm.
struct Noise {
  double operators = 0;  ///< spread of each pass and update
  double links = 0;      ///< spread of each transfer and collective
  double devices = 0;    ///< spread of a device: all that it computes in an iteration
  double hosts = 0;      ///< spread of each launch
  /// Each device is `straggler_factor` times as slow in an iteration with this probability.
  double stragglers = 0, straggler_factor = 1;
  [[nodiscard]] bool is_none() const { return *this == Noise(); }
  /// Reads back to an equal one: "operators=2%,links=10%,devices=3%,stragglers=0.1%x1.5".
  [[nodiscard]] std::string str() const;
  bool operator==(const Noise&) const = default;
};
/// InputError with what is allowed.
Noise parse_noise(std::string_view text);
/// Returns the noise that was measured, of passes and updates, and of transfers. Each spread is the median
/// over the keys that have at least eight samples. The spread of a key is half the distance between the
/// logarithms of its 16 % and 84 % quantiles. InputError where no key has so many.
Noise measured_noise(const Calibration& calibration);

/// Times of iterations, each with noise of its own.
class IterationTimes {
 public:
  /// At least one time; `quiet`: that of the iteration without noise.
  IterationTimes(std::vector<Nanoseconds> times, Nanoseconds quiet);
  [[nodiscard]] Nanoseconds quantile(double share) const;  ///< in [0, 1], between samples by their order
  [[nodiscard]] Nanoseconds mean() const;
  [[nodiscard]] const std::vector<Nanoseconds>& sorted() const { return times_; }
  [[nodiscard]] Nanoseconds quiet() const { return quiet_; }

 private:
  std::vector<Nanoseconds> times_;
  Nanoseconds quiet_;
};

struct NoiseRequest {
  Noise noise;
  std::int64_t samples = 500;  ///< iterations
  std::uint64_t seed = 1;
  int threads = 1;  ///< the answer is the same with any number
};

/// Evaluates the plan with all its devices and microbatches, and simulates its tasks once more for each
/// sample. InputError for schedules that have no end.
IterationTimes iteration_times(Evaluator& evaluator, const BoundStrategy& strategy,
                               const NoiseRequest& request);

/// "p95" or "mean": the share of iterations that take no longer, or nothing of the mean. InputError with what
/// is allowed.
struct NoiseObjective {
  double quantile = -1;  ///< below 0: the mean
  [[nodiscard]] Nanoseconds of(const IterationTimes& times) const {
    return quantile < 0 ? times.mean() : times.quantile(quantile);
  }
};
NoiseObjective parse_objective(std::string_view text);

}  // namespace pipesim
