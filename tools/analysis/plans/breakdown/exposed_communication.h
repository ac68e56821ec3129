#pragma once

#include <cstdint>
#include <vector>

#include "tools/analysis/plans/breakdown/communication_cause.h"

namespace pipesim {

/// Time in which a device communicates: at least one transfer or collective runs, from its start to its end,
/// in which the device takes part. It may pass data on, or wait for the slower links of others.
/// - exposed: meanwhile no pass and no update runs on the device;
/// - hidden: the rest.
/// Where communication of several causes runs at once, the time is shared equally between these causes. So
/// the times of all causes add up to the time in which the device communicates.
struct CommunicationTime {
  ByCause<std::int64_t> exposed{}, hidden{};  ///< parts of a nanosecond, see kParts
  /// All equal shares of a nanosecond are whole numbers of these: a multiple of 1, 2, … kCommunicationCauses.
  static constexpr std::int64_t kParts = 840;
  static_assert(kCommunicationCauses <= 8);

  [[nodiscard]] std::int64_t all_exposed() const;
  [[nodiscard]] std::int64_t all_hidden() const;
  CommunicationTime& operator+=(const CommunicationTime& other);
  bool operator==(const CommunicationTime&) const = default;
};
constexpr double seconds_of_parts(double parts) {
  return parts / static_cast<double>(CommunicationTime::kParts) * 1e-9;
}

/// By device, over the iteration. `part` must have labels. `groups`: the real ones. Effort: that of sorting
/// the simulated tasks by time.
std::vector<CommunicationTime> communication_times(const SimulatedPart& part, const BoundStrategy& strategy,
                                                   const DeviceGroups& groups, const ModelAxes& axes);

/// What reports tell of all devices.
struct CommunicationSummary {
  /// Seconds: the mean over the devices that compute anything in the iteration.
  ByCause<double> exposed{}, hidden{};
  double all_exposed = 0, all_hidden = 0;
  std::size_t most_exposed = 0;  ///< the device with the most exposed time, the first of several
};
/// `compute`: by device, its time of computing; at least one is above 0 or all results are 0.
CommunicationSummary summary_of(const std::vector<CommunicationTime>& times,
                                const std::vector<Nanoseconds>& compute);

}  // namespace pipesim
