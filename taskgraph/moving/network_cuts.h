#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"

namespace pipesim {

/// A border is all links that lead into a device or a node, or all that lead out of it. Whatever crosses it
/// holds them for bytes / bandwidth together, so borders give lower bounds that need no plan.
///
/// There are none where holds are measured, not computed, nor beyond kMostDevices, where all-to-alls are
/// estimated from a sample of their pairs.
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
  // Numbers of borders; the one out of a device or node follows the one into it.
  [[nodiscard]] std::size_t into(DeviceId device) const { return 2 * device.index(); }
  [[nodiscard]] std::size_t into_node(std::int32_t node) const {
    return 2 * (node_of_.size() + static_cast<std::size_t>(node));
  }
  [[nodiscard]] std::int32_t node(DeviceId device) const { return node_of_[device.index()]; }
  /// At least so long must `bytes` hold some lane of the border.
  [[nodiscard]] Seconds least_time(std::size_t border, std::int64_t bytes) const {
    return Seconds(static_cast<double>(bytes) / borders_[border].bandwidth * 1e-9);
  }

 private:
  void add(std::size_t border, LaneId lane, const Topology& topology);

  std::vector<std::int32_t> node_of_;  // by device
  std::vector<Border> borders_;
};

}  // namespace pipesim
