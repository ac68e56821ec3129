#include "taskgraph/schedules/automatic_zero_bubble.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "taskgraph/schedules/kinds.h"

namespace pipesim {
namespace {

// What the variants differ in.
struct ZeroBubbleVariant {
  // By device: microbatches that may be forward beyond the one that is next to come back.
  std::vector<std::int32_t> ahead;
  std::vector<std::int32_t> late;  // by device: microbatches that may wait for their weight gradients
  bool in_turn = false;  // forward after backward where both are possible; else backward comes first
  bool patient = false;  // no step begins that would make another wait that is on its way
  auto operator<=>(const ZeroBubbleVariant&) const = default;
};

// Runs the devices in time, each taking a step as soon as one is possible.
class ZeroBubbleBuilder {
 public:
  using Time = std::int64_t;

  ZeroBubbleBuilder(const PipelineShape& shape, const ZeroBubbleTimes& times,
                    const ZeroBubbleVariant& variant)
      : shape_(shape), times_(times), variant_(variant), devices_(size(shape.devices)) {
    for (Device& device : devices_) {
      device.data_at.assign(size(shape.microbatches), kUnknown);
      device.gradient_at.assign(size(shape.microbatches), kUnknown);
      device.steps.reserve(3 * size(shape.microbatches));
    }
    devices_.front().data_at.assign(size(shape.microbatches), 0);
    wake_.emplace(0, 0);
    run();
  }

  // The cost, which is to be small, is the longest span of a device, then the end of all.
  [[nodiscard]] std::pair<Time, Time> cost() const {
    Time span = 0, end = 0;
    for (const Device& device : devices_) {
      span = std::max(span, device.free - device.begin);
      end = std::max(end, device.free);
    }
    return {span, end};
  }

  PipelineSchedule schedule() && {
    PipelineSchedule schedule;
    for (Device& device : devices_) schedule.push_back(std::move(device.steps));
    return schedule;
  }

 private:
  static constexpr Time kUnknown = std::numeric_limits<Time>::max();
  struct Device {
    std::int32_t forward = 0, input = 0, weight = 0;  // done or begun
    Time begin = 0, free = 0;
    std::vector<Time> data_at, gradient_at;  // by microbatch: when it can begin forward, backward
    std::vector<PipelineStep> steps;
  };

  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }

  void run() {
    while (!wake_.empty()) {
      const auto [now, number] = wake_.top();
      wake_.pop();
      Device& device = devices_[size(number)];
      if (device.free <= now) step(number, device, now);
    }
  }

  // When the next microbatch can begin forward, as far as is known; never while memory has no room for it.
  [[nodiscard]] Time next_forward(std::int32_t number, const Device& d) const {
    const bool may = d.forward < shape_.microbatches && d.forward - d.weight < shape_.number &&
                     d.forward - d.input <= variant_.ahead[size(number)];
    return may ? d.data_at[size(d.forward)] : kUnknown;
  }
  [[nodiscard]] Time next_input(const Device& d) const {
    return d.input < shape_.microbatches ? d.gradient_at[size(d.input)] : kUnknown;
  }

  void step(std::int32_t number, Device& d, Time now) {
    const Time forward = next_forward(number, d), input = next_input(d);
    const std::int32_t waiting = d.input - d.weight;
    const bool after_input = !d.steps.empty() && d.steps.back().kind != StepKind::Forward;
    if (waiting > variant_.late[size(number)]) {
      take(number, d, StepKind::BackwardWeight, now);
    } else if (input <= now && !(forward <= now && variant_.in_turn && after_input)) {
      take(number, d, StepKind::BackwardInput, now);
    } else if (forward <= now && !(variant_.patient && input > now && input - now < times_.forward / 2)) {
      take(number, d, StepKind::Forward, now);
    } else if (waiting > 0 && !(variant_.patient && std::min(forward, input) - now < times_.weight / 2)) {
      take(number, d, StepKind::BackwardWeight, now);
    }
  }

  void take(std::int32_t number, Device& d, StepKind kind, Time now) {
    if (d.steps.empty()) d.begin = now;
    if (kind == StepKind::Forward) {
      const std::int32_t m = d.forward++;
      end(number, d, {kind, m, number}, now + times_.forward);
      const bool last = number + 1 == shape_.devices;
      last ? arrive(number, d.gradient_at[size(m)], d.free)
           : arrive(number + 1, devices_[size(number + 1)].data_at[size(m)], d.free + times_.transfer);
    } else if (kind == StepKind::BackwardInput) {
      const std::int32_t m = d.input++;
      end(number, d, {kind, m, number}, now + times_.input);
      if (number > 0)
        arrive(number - 1, devices_[size(number - 1)].gradient_at[size(m)], d.free + times_.transfer);
    } else {
      end(number, d, {kind, d.weight++, number}, now + times_.weight);
    }
  }

  void end(std::int32_t number, Device& d, const PipelineStep& step, Time when) {
    d.steps.push_back(step);
    d.free = when;
    wake_.emplace(when, number);
  }
  void arrive(std::int32_t number, Time& at, Time when) {
    at = when;
    wake_.emplace(when, number);
  }

  const PipelineShape& shape_;
  const ZeroBubbleTimes& times_;
  const ZeroBubbleVariant& variant_;
  std::vector<Device> devices_;
  using Wake = std::pair<Time, std::int32_t>;  // when, device
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wake_;
};

// Forward runs ahead by `above / below` microbatches for each stage behind, as far as memory allows; weight
// gradients are late by what is left of it, or by all that it holds. `gaps`: steps are long enough for gaps
// to be shorter than they are.
std::set<ZeroBubbleVariant> zero_bubble_variants(const PipelineShape& shape, bool gaps) {
  const std::int32_t most = shape.number - 1, stages = shape.devices;
  const std::pair<std::int32_t, std::int32_t> ratios[] = {
      {1, 1}, {3, 2}, {2, 1}, {most, std::max(stages - 1, 1)}, {most, 1}};
  std::set<ZeroBubbleVariant> variants;
  for (const auto& [above, below] : ratios) {
    ZeroBubbleVariant variant;
    for (std::int32_t d = 0; d < stages; ++d) {
      const std::int64_t ahead = std::int64_t{stages - 1 - d} * above / below;
      variant.ahead.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(ahead, most)));
    }
    for (const bool lazy : {false, true}) {
      variant.late.clear();
      for (const std::int32_t ahead : variant.ahead) variant.late.push_back(lazy ? most : most - ahead);
      for (const bool in_turn : {false, true}) {
        for (const bool patient : {false, true}) {
          variant.in_turn = in_turn;
          variant.patient = patient && gaps;
          variants.insert(variant);
        }
      }
    }
  }
  return variants;
}

std::string refuse_automatic(const PipelineShape& shape) {
  if (shape.number >= 1) return "";
  return fmt::format("found a limit of {} microbatches, allowed: from 1, like {}", shape.number,
                     shape.devices);
}

PipelineSchedule build_automatic(const PipelineShape& shape) { return automatic_zero_bubble(shape, {}); }

}  // namespace

PipelineSchedule automatic_zero_bubble(const PipelineShape& shape, const ZeroBubbleTimes& times) {
  const std::int64_t work = shape.microbatches * (times.forward + times.input + times.weight);
  PipelineSchedule best;
  std::pair<std::int64_t, std::int64_t> least{std::numeric_limits<std::int64_t>::max(), 0};
  const bool gaps = std::max(times.forward, times.weight) > 1;
  for (const ZeroBubbleVariant& variant : zero_bubble_variants(shape, gaps)) {
    ZeroBubbleBuilder builder(shape, times, variant);
    if (builder.cost() >= least) continue;
    least = builder.cost();
    best = std::move(builder).schedule();
    if (least.first == work) break;  // no bubbles
  }
  return best;
}

ScheduleKind automatic_zero_bubble_schedule() {
  return {"zb-auto",
          "weight gradients fill any wait; a device keeps at most LIMIT microbatches (as many as stages: "
          "ZB-1p; twice as many: ZB-2p)",
          "Qi et al. (Zero Bubble Pipeline Parallelism), ICLR 2024",
          false,
          refuse_automatic,
          build_automatic,
          {"LIMIT", "the most microbatches that a device may hold"}};
}

}  // namespace pipesim
