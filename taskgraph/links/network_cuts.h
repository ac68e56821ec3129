#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"

namespace pipesim {

/// A border is the set of all links into a device or a node, or of all links out of it. Data that cross a
/// border hold its links for bytes / bandwidth of all of them together. So borders give lower bounds of time
/// that need no plan.
///
/// Empty with a calibration, because holds are then measured. Also empty beyond kMostDevices, where
/// all-to-alls are estimated from a sample of their pairs.
class Borders {
 public:
  static constexpr std::size_t kMostDevices = 256;
  struct Lane {
    LaneId lane;
    double bandwidth = 0;  ///< bytes a nanosecond
  };
  struct Border {
    std::vector<Lane> lanes;
    double bandwidth = 0;  ///< of all
  };

  explicit Borders(const CostModel& costs);

  [[nodiscard]] bool empty() const { return borders_.empty(); }
  [[nodiscard]] std::size_t size() const { return borders_.size(); }
  [[nodiscard]] const Border& operator[](std::size_t border) const { return borders_[border]; }
  // Numbers of borders. The border into a device or node is followed by the one out of it.
  [[nodiscard]] std::size_t into(DeviceId device) const { return 2 * device.index(); }
  [[nodiscard]] std::size_t into_node(std::int32_t node) const {
    return 2 * (node_of_.size() + static_cast<std::size_t>(node));
  }
  [[nodiscard]] std::int32_t node(DeviceId device) const { return node_of_[device.index()]; }
  /// The least time for which `bytes` hold some lane of the border.
  [[nodiscard]] Seconds least_time(std::size_t border, std::int64_t bytes) const {
    return Seconds(static_cast<double>(bytes) / borders_[border].bandwidth * 1e-9);
  }

 private:
  void add(std::size_t border, LaneId lane, const Topology& topology);

  std::vector<std::int32_t> node_of_;  // by device
  std::vector<Border> borders_;
};

}  // namespace pipesim
