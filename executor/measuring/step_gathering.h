#pragma once

#include <vector>

#include "executor/ranks/device_worlds.h"
#include "executor/run/execution.h"

namespace pipesim {

/// Records of the same steps from all processes as records of the whole run. A call of all ranks; the result
/// is complete on rank 0 only.
std::vector<StepRecord> gather_steps(DeviceWorlds& worlds, const std::vector<StepRecord>& mine);

/// Measured memory of all devices, by device id. A call of all ranks; complete on rank 0 only.
std::vector<MeasuredMemory> gather_memory(DeviceWorlds& worlds, const std::vector<MeasuredMemory>& mine);

}  // namespace pipesim
