#pragma once

#include <filesystem>
#include <optional>

namespace pipesim {

/// Cores that this process may keep busy, at least 1: those it may run on (sched_getaffinity), or fewer where
/// a control group that it is in allows it less time (cpu.max of cgroup v2).
int available_cores();

/// Cores that cpu.max allows in the folder of a control group and in those above it up to `root`, rounded up;
/// none: as many as there are.
std::optional<int> cores_of_control_group(const std::filesystem::path& root,
                                          const std::filesystem::path& group);

}  // namespace pipesim
