#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "costmodel/calibration.h"
#include "costmodel/ratio_curve.h"

namespace pipesim {

/// A calibration prepared for one topology: medians, and ratios to the analytic model, looked up by key.
/// Const members are pure.
class CalibratedTimes {
 public:
  CalibratedTimes(const Calibration& calibration, const Topology& topology);

  /// Times without corrections. `analytic`: the analytic model's time.
  [[nodiscard]] Estimate operator_time(const CalibrationKey& key, DeviceId device, Seconds analytic) const;
  [[nodiscard]] Estimate update_time(const CalibrationKey& key, DeviceId device, Seconds analytic) const;
  /// Returns ratios by bytes, for a plan of this kind and group. Element types are not distinguished.
  [[nodiscard]] RatioCurve transfer_ratios(Collective kind, std::span<const DeviceId> group,
                                           const CollectivePlan& plan) const;
  /// Returns the identity where nothing was fitted.
  [[nodiscard]] Correction correction(const std::string& correction_class) const;

  /// The device name in the calibration whose measurements are used for this device; empty when there are
  /// none.
  [[nodiscard]] const std::string& place(DeviceId device) const;
  /// Kinds of devices that the calibration lacks, one line each.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  using Sizes = std::vector<std::int64_t>;
  /// Subject, name, attributes, pass, element type.
  using Family = std::tuple<CalibrationKey::Subject, std::string, std::string, Pass, DataType>;
  struct Measured {
    std::map<Sizes, double> seconds;  ///< medians
    RatioCurve ratios;                ///< operators: by analytic seconds; updates: by elements
  };
  using ByNeighbours = std::map<std::int32_t, Measured>;
  struct KindTimes {
    std::string place;
    std::map<Family, ByNeighbours> families;
  };

  void choose_places(const Calibration& calibration);
  void add_kind(const Calibration& calibration, const DeviceKind& kind, KindTimes& times) const;
  [[nodiscard]] const KindTimes& of(DeviceId device) const;
  [[nodiscard]] const Measured* find(const CalibrationKey& key, DeviceId device) const;
  [[nodiscard]] Estimate estimate(const CalibrationKey& key, DeviceId device, double size,
                                  Seconds analytic) const;

  const Topology& topology_;
  std::vector<KindTimes> kinds_;
  std::map<std::tuple<std::string, std::int64_t, std::string>, std::vector<std::pair<std::int64_t, double>>>
      transfers_;  // collective, devices, links: bytes, median
  std::map<std::string, Correction> corrections_;
  std::vector<std::string> warnings_;
};

}  // namespace pipesim
