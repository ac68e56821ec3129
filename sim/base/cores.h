#pragma once

#include <filesystem>
#include <optional>

namespace pipesim {

/// The number of cores that this process may keep busy, at least 1. It is the number of cores in the
/// process's affinity mask (sched_getaffinity), or the CPU quota of its control group (cpu.max of cgroup v2)
/// if that is smaller.
int available_cores();

/// The smallest CPU quota (cpu.max) of the control group in folder `group` and of its parents up to `root`,
/// in cores, rounded up. Nothing when no group sets a quota.
std::optional<int> cores_of_control_group(const std::filesystem::path& root,
                                          const std::filesystem::path& group);

}  // namespace pipesim
