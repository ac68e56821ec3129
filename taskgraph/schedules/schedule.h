#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// What is done with one microbatch in one stage. Backward is both parts at once: the gradients of a stage's
/// inputs, for which the stage before waits, and those of its weights, for which nobody does.
enum class StepKind : std::uint8_t { Forward, Backward, BackwardInput, BackwardWeight };

struct PipelineStep {
  StepKind kind = StepKind::Forward;
  std::int32_t microbatch = 0;
  std::int32_t stage = 0;
  bool operator==(const PipelineStep&) const = default;
};

/// What a schedule is made for. A device stands for all that run a stage together, or all its replicas.
struct PipelineShape {
  std::int32_t devices = 1;
  std::int32_t microbatches = 1;
  /// Stages of every device; more than one for schedules that take chunks only, and on a single device for
  /// those that do not train as the model does without stages: microbatches then go one after the other.
  std::int32_t chunks = 1;
  std::int32_t limit = 0;  ///< most microbatches that a device holds; for schedules that take a limit only
  /// Replicas of every device's stage. They take microbatches in turn: number m goes to replica m mod
  /// replicas. Empty: one of each. For schedules that take replicas only, and a single chunk.
  std::vector<std::int32_t> replicas = {};
  [[nodiscard]] std::int32_t replicas_of(std::int32_t device) const {
    return replicas.empty() ? 1 : replicas[static_cast<std::size_t>(device)];
  }
  bool operator==(const PipelineShape&) const = default;
};

/// What every device of a pipeline does, in this order; where there are replicas, each of them, those of the
/// first device first.
using PipelineSchedule = std::vector<std::vector<PipelineStep>>;

/// When weights change.
enum class WeightChange : std::uint8_t {
  AfterIteration,     ///< after all microbatches, when the pipeline is empty
  AfterMicrobatch,    ///< after each one's backward, while others are under way
  BetweenIterations,  ///< after each iteration's microbatches, while those of the next are under way
  Never               ///< nothing is trained
};

/// A schedule by its name.
struct ScheduleKind {
  std::string_view name, summary, source;
  bool takes_chunks = false;
  /// Why it can't be made for the shape, with what would do; "" when it can. Counts are at least 1.
  std::string (*refusal)(const PipelineShape& shape);
  PipelineSchedule (*build)(const PipelineShape& shape);
  bool takes_limit = false;  ///< PipelineShape::limit, which is a part of what is written: "zb-auto:8"
  WeightChange weights = WeightChange::AfterIteration;
  /// For schedules that change weights while microbatches are under way: by how many changes the weights lag
  /// with which a stage takes a microbatch forward and back, see WeightVersions. `replicas`: by stage.
  std::int32_t (*versions_behind)(std::span<const std::int32_t> replicas, std::int32_t stage) = nullptr;
  /// Microbatches with odd numbers go through the devices in the opposite direction: those of the first stage
  /// run the last one for them, and so on, with weights of their own.
  bool both_ways = false;
  bool takes_replicas = false;  ///< PipelineShape::replicas
  /// A microbatch meets weights in all stages as they were when the first stage had those that it meets
  /// there.
  bool vertical_sync = false;
  /// How it is written: "1f1b", "zb-auto:LIMIT".
  [[nodiscard]] std::string form() const { return std::string(name) + (takes_limit ? ":LIMIT" : ""); }
};

/// All, in the order of the help.
std::span<const ScheduleKind> schedule_kinds();
/// The kind of a schedule written as NAME or NAME:LIMIT. InputError with the names that are allowed, or where
/// a limit is missing, is too much, or is no whole number from 1.
const ScheduleKind& schedule_kind(std::string_view written);

/// InputError `schedule "NAME": …` where the shape does not suit the schedule; require_shape() makes none.
void require_shape(std::string_view written, PipelineShape shape);
PipelineSchedule make_schedule(const ScheduleKind& kind, const PipelineShape& shape);
/// Makes a schedule by its name as written, with the limit in it.
PipelineSchedule make_schedule(std::string_view written, PipelineShape shape);

/// Remembers what it made last: some schedules take long.
class MadeSchedules {
 public:
  /// make_schedule() of the same. Valid until the next call.
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
