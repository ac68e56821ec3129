#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
    std::optional<std::size_t> begins;        ///< whose step it is, if not of weights alone
  };
  /// A stage on a group, and its steps in an iteration. Backward is whole, or of inputs and of weights.
  struct Steps {
    std::int64_t stage = 0;
    std::int64_t microbatches = 0;                                  ///< that go through it
    std::int64_t forward = 0, backward = 0, input = 0, weight = 0;  ///< those that run alone
    std::int64_t weight_behind =
        0;  ///< of these, after the group's last step of backward that is not of weights
  };
  /// So many steps forward through one of the group's stages, each beside a whole backward through one.
  struct Pairs {
    std::size_t forward = 0, backward = 0;  ///< of Group::steps
    std::int64_t times = 0;
  };
  struct Group {
    std::vector<Steps> steps;  ///< by stage on it
    std::vector<Pairs> pairs;
    std::vector<Moment> moments;   ///< at which most are under way, of either kind or of both together
    std::int64_t first_stage = 0;  ///< of the first step
    std::int64_t last_stage = 0;   ///< of the last step of backward that is not of weights alone
  };
  std::vector<Group> groups;
  bool splits_backward = false;  ///< some weight gradients have steps of their own
  bool both_ways = false;  ///< a group's two stages have weights of their own, as ScheduleKind::both_ways
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
