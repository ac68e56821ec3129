#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/cost_model.h"

namespace pipesim {

/// A collective at one size, in the terms of nccl-tests.
struct CollectiveRow {
  Bytes size;  ///< of the buffer: what a device ends with or begins with, whichever is more
  Seconds time;
  BytesPerSecond algorithm_bandwidth;  ///< size by time
  /// The same times the share of the size that each device sends: 2(n−1)/n for all-reduce, (n−1)/n for
  /// all-gather, reduce-scatter and all-to-all, 1 for the others. It can be compared with the links.
  BytesPerSecond bus_bandwidth;
  std::string_view algorithm;
  bool measured = false;  ///< from a calibration
  /// All algorithms of the group, each with its time before any calibration; the fastest first.
  std::vector<std::pair<std::string_view, Seconds>> algorithms;
};

/// `group`: see CostModel::collective_time.
std::vector<CollectiveRow> time_collective(const CostModel& costs, Collective kind,
                                           std::span<const DeviceId> group, std::span<const Bytes> sizes);

}  // namespace pipesim
