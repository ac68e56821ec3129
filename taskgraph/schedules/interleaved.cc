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

enum class Alternation : std::uint8_t { InTurn, Beside };  // how forward and backward alternate

// Device d has the stages d, d + devices, …: its chunks. Microbatches go through in groups of `together`,
// each group through one chunk after the other; the last group has what is left. A forward step beside a
// backward step ends with it, so the one that the next backward step needs goes ahead.
PipelineSchedule interleaved_in_groups(const PipelineShape& shape, std::int32_t together,
                                       Alternation alternation = Alternation::InTurn) {
  const std::int32_t devices = shape.devices, chunks = shape.chunks, all = shape.microbatches * chunks;
  return schedule_of(shape, [&](std::int32_t device) {
    const auto step = [&](StepKind kind, std::int32_t number) {
      const std::int32_t first = number / (together * chunks) * together, within = number - first * chunks;
      const std::int32_t size = std::min(together, shape.microbatches - first), turn = within / size;
      const std::int32_t chunk = kind == StepKind::Forward ? turn : chunks - 1 - turn;
      return PipelineStep{kind, first + within % size, chunk * devices + device};
    };
    const bool beside = alternation == Alternation::Beside;
    const std::int32_t ahead =
        std::min(all, 2 * (devices - device - 1) + (chunks - 1) * together + (beside ? 1 : 0));
    std::vector<PipelineStep> steps;
    for (std::int32_t i = 0; i < ahead; ++i) steps.push_back(step(StepKind::Forward, i));
    for (std::int32_t i = 0; i < all; ++i) {
      if (i + ahead < all) steps.push_back(step(StepKind::Forward, i + ahead));
      steps.push_back(step(StepKind::Backward, i));
      steps.back().beside = beside && i + ahead < all;
    }
    return steps;
  });
}

PipelineSchedule build_interleaved(const PipelineShape& shape) {
  return interleaved_in_groups(shape, shape.devices);
}

// In groups of fewer microbatches than devices, the first would not be back in time for the next chunk.
std::string refuse_groups(const PipelineShape& shape) {
  if (shape.number < shape.devices || shape.number > shape.microbatches)
    return fmt::format(
        "found groups of {} for {} microbatches, allowed: from as many as the {} groups of devices to {}",
        shape.number, shape.microbatches, shape.devices, std::max(shape.devices, shape.microbatches));
  const std::int32_t left = shape.microbatches % shape.number;
  if (left == 0 || left >= shape.devices) return "";
  return fmt::format(
      "found {} microbatches, of which groups of {} leave {}, allowed: that they leave none, or as many as "
      "the {} groups of devices",
      shape.microbatches, shape.number, left, shape.devices);
}

PipelineSchedule build_beside(const PipelineShape& shape) {
  return interleaved_in_groups(shape, shape.number, Alternation::Beside);
}

PipelineSchedule build_groups(const PipelineShape& shape) {
  return interleaved_in_groups(shape, shape.number);
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

ScheduleKind interleaved_groups_schedule() {
  return {"interleaved-groups",
          "interleaved, with so many microbatches through a stage before the device's next: fewer waits for "
          "transfers, more memory",
          "Megatron-LM, --microbatch-group-size-per-virtual-pipeline-stage",
          true,
          refuse_groups,
          build_groups,
          {"GROUP", "the microbatches that go through a stage before the device turns to its next"}};
}

ScheduleKind interleaved_beside_schedule() {
  ScheduleKind kind{
      "interleaved-beside",
      "interleaved-groups, one microbatch further ahead, so that forward of one runs beside backward of "
      "another: the tokens of one travel to experts while devices compute for the other",
      "Megatron-LM, --overlap-moe-expert-parallel-comm",
      true,
      refuse_groups,
      build_beside,
      {"GROUP", "the microbatches that go through a stage before the device turns to its next"}};
  kind.pairs = true;
  return kind;
}

}  // namespace pipesim
