#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace pipesim {

/// What bounds need to know of the steps of a pipeline's schedule.
struct ScheduleShape {
  /// By group of devices, and stage on it: microbatches that have gone forward there, and whose backward has
  /// not begun, at the moment of a step of backward when all stages of the group together have most.
  std::vector<std::vector<std::int64_t>> in_flight;
  /// By group: steps for weight gradients alone that come after the last step of backward through the group's
  /// first stage; −1: other steps come after it, too.
  std::vector<std::int64_t> weight_steps_behind;
  bool splits_backward = false;  ///< weight gradients have steps of their own
};

/// Shapes, each made once.
class ScheduleShapes {
 public:
  /// `schedule`: suits the shape. `chunks`: stages on each group.
  const ScheduleShape& of(const std::string& schedule, std::int64_t groups, std::int64_t microbatches,
                          std::int64_t chunks);

 private:
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>, ScheduleShape> made_;
};

}  // namespace pipesim
