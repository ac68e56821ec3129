#pragma once

#include <functional>
#include <optional>
#include <string>

namespace pipesim {

/// Values that a launcher has given this process about itself and its peers.
struct LaunchedRank {
  std::string launcher;  ///< "torchrun", "Open MPI" or "Slurm"
  int rank = 0;          ///< from 0 to ranks - 1
  int ranks = 1;
  int local_rank = 0;   ///< among the ranks of this host
  int local_ranks = 1;  ///< of this host
  std::string address;  ///< of the host of rank 0; empty if not known
  int port = 0;         ///< at which rank 0 may listen; 0 if not known

  bool operator==(const LaunchedRank&) const = default;
};

/// The value of a variable, none if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// The lookup in the environment of this process.
EnvironmentLookup process_environment();

/// Who started this process as one of several; none if nobody did. The innermost launcher decides, since
/// torchrun may be started by the others, and mpirun inside a job of Slurm:
///
/// 1. torchrun, where RANK is set: WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
///    (PyTorch, "torchrun", environment variables). Where torchrun itself listens at MASTER_PORT
///    (TORCHELASTIC_USE_AGENT_STORE is True), the port is the next one, after 65535 the one before.
/// 2. Open MPI, where OMPI_COMM_WORLD_RANK is set: the same with _SIZE, _LOCAL_RANK and _LOCAL_SIZE.
/// 3. Slurm's srun, where SLURM_PROCID and SLURM_STEP_ID are set (a batch script, which runs once, has no
///    step, or one of the last numbers): SLURM_STEP_NUM_TASKS or else SLURM_NTASKS, SLURM_LOCALID,
///    SLURM_STEP_TASKS_PER_NODE at SLURM_NODEID or else SLURM_NTASKS_PER_NODE; the first host of
///    SLURM_STEP_NODELIST or else of SLURM_JOB_NODELIST, where rank 0 runs unless tasks are distributed
///    otherwise; a port from 10000 to 29999 by SLURM_JOB_ID and the step (srun(1), output environment
///    variables).
///
/// MASTER_ADDR and MASTER_PORT hold under all launchers. InputError: `SLURM_LOCALID is "9"; a whole number
/// from 0 to 7 is allowed (8 ranks on this host, as Slurm says)`.
std::optional<LaunchedRank> launched_rank(const EnvironmentLookup& variable);

}  // namespace pipesim
