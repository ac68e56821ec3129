#include <fmt/format.h>

#include <algorithm>

#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

std::string refuse_interleaved(const PipelineShape& shape) {
  if (shape.microbatches % shape.devices == 0) return "";
  const std::int32_t below = shape.microbatches / shape.devices * shape.devices;
  return fmt::format("found {} microbatches, allowed: a multiple of the {} groups of devices, like {}",
                     shape.microbatches, shape.devices, below == 0 ? shape.devices : below);
}

// Device d has the stages d, d + devices, …: its chunks. Microbatches go through in groups of as many as
// there are devices, each group through one chunk after the other.
PipelineSchedule build_interleaved(const PipelineShape& shape) {
  const std::int32_t devices = shape.devices, chunks = shape.chunks, all = shape.microbatches * chunks;
  return schedule_of(shape, [&](std::int32_t device) {
    const auto step = [&](StepKind kind, std::int32_t number) {
      const std::int32_t group = number / (devices * chunks), within = number % (devices * chunks);
      const std::int32_t turn = within / devices;
      const std::int32_t chunk = kind == StepKind::Forward ? turn : chunks - 1 - turn;
      return PipelineStep{kind, group * devices + within % devices, chunk * devices + device};
    };
    const std::int32_t ahead = std::min(all, 2 * (devices - device - 1) + (chunks - 1) * devices);
    std::vector<PipelineStep> steps;
    for (std::int32_t i = 0; i < ahead; ++i) steps.push_back(step(StepKind::Forward, i));
    for (std::int32_t i = 0; i < all; ++i) {
      if (i + ahead < all) steps.push_back(step(StepKind::Forward, i + ahead));
      steps.push_back(step(StepKind::Backward, i));
    }
    return steps;
  });
}

}  // namespace

ScheduleKind interleaved_schedule() {
  return {"interleaved",
          "1f1b with several stages a device: smaller bubbles, more transfers",
          "Narayanan et al., SC 2021",
          true,
          refuse_interleaved,
          build_interleaved};
}

}  // namespace pipesim
