#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// The work on one microbatch in one stage. Backward is both parts at once: the gradients of a stage's
/// inputs, for which the stage before waits, and the gradients of its weights, for which no stage waits.
enum class StepKind : std::uint8_t { Forward, Backward, BackwardInput, BackwardWeight };

struct PipelineStep {
  StepKind kind = StepKind::Forward;
  std::int32_t microbatch = 0;
  std::int32_t stage = 0;
  /// Whether the step runs beside the one before it in the device's list: neither waits for the other. Both
  /// begin when what comes in for both is there; the next step, and what is sent to other devices, waits for
  /// both. One is a backward step, the other a forward step of another stage or microbatch.
  bool beside = false;
  bool operator==(const PipelineStep&) const = default;
};

/// The input of a schedule. A "device" stands for all devices that run a stage together, or for all its
/// replicas.
struct PipelineShape {
  std::int32_t devices = 1;
  std::int32_t microbatches = 1;
  /// Stages per device. More than one is for schedules that take chunks. A single device may also have
  /// several under schedules that do not train as the model does without stages; microbatches then go one
  /// after the other.
  std::int32_t chunks = 1;
  std::int32_t number = 0;  ///< ScheduleKind::number; only for schedules that take one
  /// Replicas of every device's stage. They take microbatches in turn: microbatch m goes to replica m mod
  /// replicas. Empty: one of each. Only for schedules that take replicas, with a single chunk.
  std::vector<std::int32_t> replicas = {};
  [[nodiscard]] std::int32_t replicas_of(std::int32_t device) const {
    return replicas.empty() ? 1 : replicas[static_cast<std::size_t>(device)];
  }
  bool operator==(const PipelineShape&) const = default;
};

/// The steps of every device of a pipeline, in order. Where there are replicas, each has its own list; the
/// replicas of the first device come first.
using PipelineSchedule = std::vector<std::vector<PipelineStep>>;

/// When weights change.
enum class WeightChange : std::uint8_t {
  AfterIteration,     ///< after all microbatches, when the pipeline is empty
  AfterMicrobatch,    ///< after each one's backward, while others are under way
  BetweenIterations,  ///< after each iteration's microbatches, while those of the next are under way
  Never               ///< nothing is trained
};

/// A number of microbatches that is part of how a schedule is written: "zb-auto:8".
struct ScheduleNumber {
  std::string_view name;     ///< in capitals: "LIMIT"; "": there is none
  std::string_view meaning;  ///< "the most microbatches that a device may hold"
};

/// A schedule and its properties.
struct ScheduleKind {
  std::string_view name, summary, source;
  bool takes_chunks = false;
  /// Why the schedule does not suit the shape, and which shape would; "" when it does. Counts are at least 1.
  std::string (*refusal)(const PipelineShape& shape);
  PipelineSchedule (*build)(const PipelineShape& shape);
  ScheduleNumber number = {};
  WeightChange weights = WeightChange::AfterIteration;
  /// For schedules that change weights while microbatches are under way: the number of changes by which the
  /// weights that a stage uses for a microbatch, forward and backward, lag behind. See WeightVersions.
  /// `replicas`: by stage.
  std::int32_t (*versions_behind)(std::span<const std::int32_t> replicas, std::int32_t stage) = nullptr;
  /// Whether microbatches with odd numbers go through the devices in the opposite direction. For them the
  /// first stage's devices run the last stage, and so on, with weights of their own.
  bool both_ways = false;
  bool takes_replicas = false;  ///< PipelineShape::replicas
  /// Whether a microbatch uses, in all stages, the weights of the moment to which its version in the first
  /// stage belongs.
  bool vertical_sync = false;
  /// Whether stages lie on the devices in a V: of p devices, device d has the stages d and 2p − 1 − d. The
  /// shape must then have two chunks. Otherwise stages go round the devices.
  bool in_v = false;
  bool pairs = false;      ///< forward steps run beside backward steps of other microbatches
  bool holds_all = false;  ///< all microbatches go forward before the first comes back
  [[nodiscard]] bool takes_number() const { return !number.name.empty(); }
  /// How it is written: "1f1b", "zb-auto:LIMIT".
  [[nodiscard]] std::string form() const {
    return std::string(name) + (takes_number() ? ":" + std::string(number.name) : "");
  }
};

/// Returns all kinds, in the order of the help.
std::span<const ScheduleKind> schedule_kinds();
/// The kind of a schedule written as NAME or NAME:NUMBER, and that number, 0 where it takes none. InputError
/// with the allowed names, or when a number is missing, is not taken, or is no whole number from 1.
const ScheduleKind& schedule_kind(std::string_view written);
std::int32_t schedule_number(std::string_view written);

/// Returns the device that has a stage, where this number of devices have the stages in turn: of three, the
/// devices 0, 1, 2, 0, 1, … have the stages 0, 1, 2, 3, 4, …; in a V the devices 0, 1, 2, 2, 1, 0 have them.
constexpr std::int64_t device_of_stage(std::int64_t stage, std::int64_t devices, bool in_v) {
  const bool back = in_v && stage / devices % 2 == 1;
  return back ? devices - 1 - stage % devices : stage % devices;
}
/// The inverse: the stage that is chunk number `chunk` of the device.
constexpr std::int64_t stage_of_chunk(std::int64_t device, std::int64_t chunk, std::int64_t devices,
                                      bool in_v) {
  return chunk * devices + (in_v && chunk % 2 == 1 ? devices - 1 - device : device);
}
/// Whether a schedule, as it is written, has stages in a V. False where there is no such schedule.
bool lies_in_v(std::string_view written);

/// InputError `schedule "NAME": …` when the shape does not suit the schedule. require_shape() only checks;
/// make_schedule() checks and makes the schedule.
void require_shape(std::string_view written, PipelineShape shape);
PipelineSchedule make_schedule(const ScheduleKind& kind, const PipelineShape& shape);
/// Makes a schedule by its name as written, with the number in it.
PipelineSchedule make_schedule(std::string_view written, PipelineShape shape);

/// Keeps the schedules that were made last, because some take long to make.
class MadeSchedules {
 public:
  /// The result of make_schedule(). Valid until the next call.
  const PipelineSchedule& of(const std::string& written, const PipelineShape& shape);

 private:
  struct Made {
    std::string written;
    PipelineShape shape;
    PipelineSchedule schedule;
  };
  std::vector<Made> made_;
  std::size_t next_ = 0;  // to be replaced
};

}  // namespace pipesim
