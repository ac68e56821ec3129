#pragma once

#include <string>

#include "taskgraph/schedules/schedule.h"
#include "tools/interop/framework/framework.h"

namespace pipesim {

/// The file of an export that holds the steps of its schedule.
inline constexpr const char* kTorchtitanSchedule = "schedule.csv";
/// Schedules in a V.
inline constexpr const char* kZeroBubbleV = "zb-v";
inline constexpr const char* kDualPipeV = "dualpipe-v";

/// The schedule of a plan's recipe and microbatches.
PipelineSchedule torchtitan_schedule_of(const FrameworkPlan& plan);

/// The schedule that places the stages. The steps are those of the CSV, except for DualPipeV: its own steps
/// are those of dualpipe-v, and steps of a CSV would run one after the other.
const char* torchtitan_schedule_name(const Recipe& recipe);
bool takes_torchtitan_steps(const Recipe& recipe);

/// Whether PyTorch compiles the kernels of the plan.
bool torchtitan_compiles(const FrameworkPlan& plan);

/// A schedule as torchtitan's CSV: a line for each group of devices, cells STAGE ACTION MICROBATCH such as
/// 0F3, with F forward, B backward, I gradients of inputs, W gradients of weights.
std::string torchtitan_schedule(const PipelineSchedule& schedule);

}  // namespace pipesim
