#include "taskgraph/schedules/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "taskgraph/schedules/kinds.h"

namespace pipesim {

std::span<const ScheduleKind> schedule_kinds() {
  static const std::array kinds{gpipe_schedule(),          one_forward_one_backward_schedule(),
                                interleaved_schedule(),    zero_bubble_h1_schedule(),
                                zero_bubble_h2_schedule(), chimera_schedule(),
                                inference_schedule()};
  return kinds;
}

const ScheduleKind& schedule_kind(std::string_view name) {
  const std::span<const ScheduleKind> kinds = schedule_kinds();
  const auto found = std::ranges::find(kinds, name, &ScheduleKind::name);
  if (found != kinds.end()) return *found;
  std::vector<std::string> names;
  for (const ScheduleKind& kind : kinds) names.emplace_back(kind.name);
  throw InputError(fmt::format("schedule \"{}\": unknown{}, allowed: {}", name,
                               did_you_mean(std::string(name), names), list_names(names)));
}

PipelineSchedule make_schedule(const ScheduleKind& kind, const PipelineShape& shape) {
  if (shape.devices < 1 || shape.microbatches < 1 || shape.chunks < 1)
    throw InternalError("a schedule for no devices, microbatches or chunks");
  std::string refusal = kind.refusal(shape);
  if (refusal.empty() && shape.chunks > 1 && !kind.takes_chunks)
    refusal = fmt::format("found {} chunks a device, allowed: 1", shape.chunks);
  if (!refusal.empty()) throw InputError(fmt::format("schedule \"{}\": {}", kind.name, refusal));
  return kind.build(shape);
}

}  // namespace pipesim
