#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// The first host of a list as Slurm writes it (scontrol(1), "hostlist expressions"):
/// "node[03-05,9],login" gives "node03", "rack[1-2]n[4-5]" gives "rack1n4". InputError that names `variable`.
std::string first_slurm_host(std::string_view variable, std::string_view list);

/// Numbers of tasks, node by node: "4(x2),3" gives 4, 4, 3 (srun(1), SLURM_TASKS_PER_NODE). At most a million
/// nodes; InputError that names `variable`.
std::vector<int> slurm_task_counts(std::string_view variable, std::string_view list);

}  // namespace pipesim
