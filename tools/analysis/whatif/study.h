#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "tools/analysis/whatif/axis.h"

namespace pipesim {

/// Where the plan of a point comes from.
enum class PointPlans : std::uint8_t {
  Same,     ///< the plan, recipe or baseline that was asked for
  Recipes,  ///< the best recipe of each point
  Search    ///< a search at each point
};
std::string_view name_of(PointPlans plans);  ///< "same", "recipes", "search"

/// What was predicted at a point.
struct PointResult {
  std::string error;   ///< why there is no plan; "" where there is one
  std::string recipe;  ///< as PlanReport::recipe
  std::string kind;    ///< "data-parallel", "hybrid", …: see kind_of_plan()
  double time_s = 0;   ///< of an iteration
  double samples_per_s = 0;
  std::optional<double> tokens_per_s, mfu;  ///< of language models
  std::string counted;                      ///< how the FLOPs of mfu are counted, and by what divided
  std::int64_t devices = 0;                 ///< of the topology
  std::int64_t memory_bytes = 0;            ///< the peak of the fullest device
  bool fits = true;
  std::optional<double> price_per_hour;  ///< of all devices
  std::optional<double> objective_s;     ///< the time that Study::objective asks for, under noise
  std::string opaque;                    ///< see opaque_operators() in tools/analysis/plans/plan_report.h
  bool operator==(const PointResult&) const = default;
};

/// A place between two neighbouring points where the winning kind of plan changes along an axis.
struct Crossover {
  std::size_t axis = 0;
  std::vector<std::size_t> before;  ///< the point before it, its neighbour is the next along the axis
  std::string low, high;            ///< values between which it lies
  std::string from, to;             ///< the plans at both
  bool operator==(const Crossover&) const = default;
};

/// A study: what was asked, and the points that are done.
struct Study {
  std::vector<std::string> words;  ///< options that say what is varied, as on the command line
  PointPlans plans = PointPlans::Same;
  std::string objective;                 ///< "p95" where points have noise, else ""
  std::string model, model_fingerprint;  ///< what it is a study of
  std::vector<StudyAxis> axes;
  std::vector<std::optional<PointResult>> points;  ///< by number, see place_of_point()
  std::vector<Crossover> crossovers;

  [[nodiscard]] std::size_t done() const;
  [[nodiscard]] const std::string& value(std::size_t point, std::size_t axis) const {
    return axes[axis].values[place_of_point(axes, point)[axis]];
  }
};

/// Cost of a million samples, or of 10⁹ tokens where the model has tokens, in the topology's currency.
std::optional<double> cost_of_work(const PointResult& point);
/// Returns, by point, its samples a second and device, divided by those of the first point along the axes on
/// which the number of devices changes (on the other axes both points are the same). Nothing without such
/// axes, and where there is no plan.
std::vector<std::optional<double>> scaling_efficiencies(const Study& study);
/// Returns the number of the axis with the most values; 0 where each has one.
std::size_t longest_axis(const std::vector<StudyAxis>& axes);

/// Training with so many tokens, or samples of models without tokens, at a point.
struct TrainingAtPoint {
  std::size_t point = 0;
  double seconds = 0;
  std::optional<double> price;  ///< where the topology has prices
};
/// Returns the cheapest point that fits and trains so much within `seconds`, or without prices the one with
/// the fewest devices; among equals, the fastest. Nothing where there is none.
std::optional<TrainingAtPoint> cheapest_within(const Study& study, double work, double seconds);
/// Returns the fastest point that fits and costs no more; nothing where there is none. InputError where no
/// point has a price.
std::optional<TrainingAtPoint> fastest_for(const Study& study, double work, double price);

}  // namespace pipesim
