#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "sim/base/suggest.h"
#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

// Two streams of microbatches pass a device: one that has not far to go from its first stage, and one that
// has not far to its last. Steps of one stream are numbered by themselves.
enum class Stream : std::uint8_t { Near, Far };

struct DualStep {
  StepKind kind;
  Stream stream;
  std::int32_t number;
  bool beside;
};

// The order of DeepSeek-V3's report (section 3.2.1, figure 5) in the eight phases of its public description.
// The device is number `place` of `places`, counted from the outer end to the turn or the middle, and
// `microbatches` of each stream pass it, at least 2 · places.
class DualPipeDevice {
 public:
  DualPipeDevice(std::int32_t place, std::int32_t places, std::int32_t microbatches)
      : place_(place), further_(places - place - 1), middle_(microbatches - 2 * places + place + 1) {}

  std::vector<DualStep> steps() {
    fill_up();
    for (std::int32_t i = 0; i < middle_; ++i) {
      forward(Stream::Near);
      // Where the streams meet, the first pair would keep the others waiting: its forward goes ahead.
      backward(Stream::Far, StepKind::Backward, i > 0 || further_ > 0);
      forward(Stream::Far);
      backward(Stream::Near, StepKind::Backward, true);
    }
    run_dry();
    return std::move(steps_);
  }

 private:
  void fill_up() {
    for (std::int32_t i = 0; i < 2 * further_; ++i) forward(Stream::Near);
    for (std::int32_t i = 0; i <= place_; ++i) forward(Stream::Near), forward(Stream::Far);
    for (std::int32_t i = 0; i < further_; ++i) {
      backward(Stream::Far, StepKind::BackwardInput);
      weight();
      forward(Stream::Far);
    }
  }

  // At first backward whole, then without the gradients of weights, which fill what would be bubbles.
  void run_dry() {
    for (std::int32_t i = 0; i < further_; ++i) {
      backward(Stream::Far, StepKind::Backward);
      forward(Stream::Far);
      backward(Stream::Near, StepKind::Backward, true);
    }
    for (std::int32_t i = 0; i < 2 * (place_ + 1); ++i) {
      const bool whole = i < place_ + 1;
      backward(i % 2 == 0 ? Stream::Far : Stream::Near, whole ? StepKind::Backward : StepKind::BackwardInput);
    }
    for (std::int32_t i = 0; i < further_; ++i) {
      weight();
      backward(Stream::Near, StepKind::BackwardInput);
    }
    while (!late_.empty()) weight();
  }

  void forward(Stream stream) {
    steps_.push_back({StepKind::Forward, stream, forward_[index(stream)]++, false});
  }
  void backward(Stream stream, StepKind kind, bool beside = false) {
    const std::int32_t number = backward_[index(stream)]++;
    steps_.push_back({kind, stream, number, beside});
    if (kind == StepKind::BackwardInput) late_.emplace_back(stream, number);
  }
  void weight() {
    const auto [stream, number] = late_.front();
    late_.pop_front();
    steps_.push_back({StepKind::BackwardWeight, stream, number, false});
  }
  static std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }

  std::int32_t place_, further_, middle_;
  std::array<std::int32_t, 2> forward_{}, backward_{};
  std::deque<std::pair<Stream, std::int32_t>> late_;  // weight gradients
  std::vector<DualStep> steps_;
};

std::string refuse_fewer(const PipelineShape& shape) {
  if (shape.microbatches >= 2 * shape.devices) return "";
  return fmt::format("found {} for {}, allowed: twice as many or more, like {}",
                     counted(shape.microbatches, "microbatch"), counted(shape.devices, "device"),
                     2 * shape.devices);
}

std::string refuse_dual_pipe(const PipelineShape& shape) {
  if (shape.chunks > 1) return "";  // refused for all schedules without chunks
  if (shape.devices % 2 != 0)
    return fmt::format("found {}, allowed: an even number, like {}", counted(shape.devices, "stage"),
                       shape.devices + 1);
  if (const std::string fewer = refuse_fewer(shape); !fewer.empty()) return fewer;
  if (shape.microbatches % 2 == 0) return "";
  return fmt::format("found {}, allowed: an even number, like {}", counted(shape.microbatches, "microbatch"),
                     shape.microbatches + 1);
}

// Device d has stage d for even microbatches, and stage devices − 1 − d for odd ones.
PipelineSchedule build_dual_pipe(const PipelineShape& shape) {
  const std::int32_t places = shape.devices / 2;
  return schedule_of(shape, [&](std::int32_t device) {
    const bool second_half = device >= places;
    const std::int32_t place = second_half ? shape.devices - 1 - device : device;
    std::vector<PipelineStep> steps;
    for (const DualStep& s : DualPipeDevice(place, places, shape.microbatches / 2).steps()) {
      const bool odd = (s.stream == Stream::Far) != second_half;
      steps.push_back(
          {s.kind, 2 * s.number + (odd ? 1 : 0), odd ? shape.devices - 1 - device : device, s.beside});
    }
    return steps;
  });
}

std::string refuse_dual_pipe_v(const PipelineShape& shape) {
  const std::string chunks = refuse_all_but_two_chunks(shape);
  return chunks.empty() ? refuse_fewer(shape) : chunks;
}

// The half of twice as many devices; what would come from the other half comes up again from the last device.
PipelineSchedule build_dual_pipe_v(const PipelineShape& shape) {
  return schedule_of(shape, [&](std::int32_t device) {
    std::vector<PipelineStep> steps;
    for (const DualStep& s : DualPipeDevice(device, shape.devices, shape.microbatches).steps()) {
      const std::int32_t stage = s.stream == Stream::Near ? device : 2 * shape.devices - 1 - device;
      steps.push_back({s.kind, s.number, stage, s.beside});
    }
    return steps;
  });
}

constexpr const char* kDualPipeReport = "DeepSeek-AI (DeepSeek-V3 Technical Report), 2024, section 3.2.1";

}  // namespace

ScheduleKind dual_pipe_schedule() {
  ScheduleKind kind{
      "dualpipe",
      "two pipelines in opposite directions, with two copies of the weights; forward of one runs "
      "beside backward of the other",
      kDualPipeReport,
      false,
      refuse_dual_pipe,
      build_dual_pipe};
  kind.both_ways = kind.pairs = true;
  return kind;
}

ScheduleKind dual_pipe_v_schedule() {
  ScheduleKind kind{
      "dualpipe-v",       "one half of dualpipe, with one copy of the weights: two stages a device, in a V",
      kDualPipeReport,    true,
      refuse_dual_pipe_v, build_dual_pipe_v};
  kind.in_v = kind.pairs = true;
  return kind;
}

}  // namespace pipesim
