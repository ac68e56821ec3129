#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace pipesim {

/// What bounds need to know of the steps of a pipeline's schedule.
struct ScheduleShape {
  /// Microbatches under way on a group when a step of backward begins, by stage on it.
  struct Moment {
    std::vector<std::int64_t> before_input;   ///< gone forward, their backward not begun
    std::vector<std::int64_t> before_weight;  ///< the same, or their weight gradients not begun
  };
  /// By group: the moments at which most are under way of either.
  std::vector<std::vector<Moment>> moments;
  /// By group, then by stage on it: steps for weight gradients alone that come after the last step of
  /// backward through the group's first stage. Empty: other steps come after it, too.
  std::vector<std::vector<std::int64_t>> weight_steps_behind;
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
