#include "executor/ranks/launched_ranks.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "executor/ranks/slurm_lists.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr int kMostRanks = 1'000'000;
constexpr int kLastPort = 65535;

// The variables of one launcher, which `sign` has given away.
class LauncherVariables {
 public:
  LauncherVariables(const EnvironmentLookup& lookup, std::string launcher, const std::string& sign)
      : lookup_(lookup), launcher_(std::move(launcher)), sign_(sign) {}

  [[nodiscard]] const std::string& launcher() const { return launcher_; }
  [[nodiscard]] bool has(const std::string& name) const { return lookup_(name).has_value(); }

  [[nodiscard]] std::string text(const std::string& name) const {
    const std::optional<std::string> value = lookup_(name);
    if (!value) {
      throw InputError(
          fmt::format("{} is not set; it is needed beside {}, which says that {} has started this process",
                      name, sign_, launcher_));
    }
    return *value;
  }

  // `why` explains the bounds.
  [[nodiscard]] std::int64_t number(const std::string& name, std::int64_t low, std::int64_t high,
                                    const std::string& why = "") const {
    const std::string value = text(name);
    std::int64_t read = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), read);
    if (error == std::errc() && end == value.data() + value.size() && read >= low && read <= high)
      return read;
    const std::string reason = why.empty() ? "" : fmt::format(" ({}, as {} says)", why, launcher_);
    throw InputError(fmt::format("{} is \"{}\"; a whole number from {} to {} is allowed{}", name, value, low,
                                 high, reason));
  }

  [[nodiscard]] int small_number(const std::string& name, int low, int high,
                                 const std::string& why = "") const {
    return static_cast<int>(number(name, low, high, why));
  }

 private:
  const EnvironmentLookup& lookup_;
  std::string launcher_;
  std::string sign_;
};

struct RankNames {
  std::string rank, ranks, local_rank, local_ranks;
};

// `local_ranks` if it is not to be read from a variable.
LaunchedRank numbered(const LauncherVariables& variables, const RankNames& names, int local_ranks = 0) {
  LaunchedRank found;
  found.launcher = variables.launcher();
  found.ranks = variables.small_number(names.ranks, 1, kMostRanks);
  found.rank = variables.small_number(names.rank, 0, found.ranks - 1, fmt::format("{} ranks", found.ranks));
  found.local_ranks = local_ranks;
  if (local_ranks == 0) {
    found.local_ranks = variables.small_number(names.local_ranks, 1, found.ranks,
                                               fmt::format("{} ranks on all hosts", found.ranks));
  }
  found.local_rank = variables.small_number(names.local_rank, 0, found.local_ranks - 1,
                                            fmt::format("{} ranks on this host", found.local_ranks));
  return found;
}

void take_first_rank(const LauncherVariables& variables, LaunchedRank& found) {
  if (variables.has("MASTER_ADDR")) {
    found.address = variables.text("MASTER_ADDR");
    if (found.address.empty())
      throw InputError("MASTER_ADDR is \"\"; the name or address of a host is allowed");
  }
  if (variables.has("MASTER_PORT")) found.port = variables.small_number("MASTER_PORT", 1, kLastPort);
}

LaunchedRank by_torchrun(const EnvironmentLookup& lookup) {
  const LauncherVariables variables(lookup, "torchrun", "RANK");
  LaunchedRank found = numbered(variables, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  (void)variables.text("MASTER_ADDR");
  (void)variables.text("MASTER_PORT");
  take_first_rank(variables, found);
  if (lookup("TORCHELASTIC_USE_AGENT_STORE") == "True") found.port += found.port < kLastPort ? 1 : -1;
  return found;
}

LaunchedRank by_open_mpi(const EnvironmentLookup& lookup) {
  const std::string world = "OMPI_COMM_WORLD_";
  const LauncherVariables variables(lookup, "Open MPI", world + "RANK");
  LaunchedRank found =
      numbered(variables, {world + "RANK", world + "SIZE", world + "LOCAL_RANK", world + "LOCAL_SIZE"});
  take_first_rank(variables, found);
  return found;
}

int slurm_local_ranks(const LauncherVariables& variables) {
  const std::string name = "SLURM_STEP_TASKS_PER_NODE";
  if (!variables.has(name)) return variables.small_number("SLURM_NTASKS_PER_NODE", 1, kMostRanks);
  const std::vector<int> counts = slurm_task_counts(name, variables.text(name));
  const int nodes = static_cast<int>(counts.size());
  const int node = variables.small_number("SLURM_NODEID", 0, nodes - 1, fmt::format("{} nodes", nodes));
  return counts[static_cast<std::size_t>(node)];
}

// Jobs and steps that may run on one node at the same time get different ports, below those that systems give
// to outgoing connections.
int slurm_port(const LauncherVariables& variables) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t job = variables.number("SLURM_JOB_ID", 0, kLargest);
  const std::int64_t step = variables.number("SLURM_STEP_ID", 0, kLargest);
  return static_cast<int>(10000 + (job * 16 + step % 16) % 20000);
}

LaunchedRank by_slurm(const EnvironmentLookup& lookup) {
  const LauncherVariables variables(lookup, "Slurm", "SLURM_PROCID");
  const std::string ranks = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  LaunchedRank found =
      numbered(variables, {"SLURM_PROCID", ranks, "SLURM_LOCALID", ""}, slurm_local_ranks(variables));
  take_first_rank(variables, found);
  if (found.address.empty()) {
    const std::string hosts =
        variables.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    found.address = first_slurm_host(hosts, variables.text(hosts));
  }
  if (found.port == 0) found.port = slurm_port(variables);
  return found;
}

// Whether srun was asked for the step. Batch scripts and shells of allocations run once, in steps with the
// last numbers (slurm.h, SLURM_BATCH_SCRIPT and those beside it).
bool is_step_of_srun(const std::string& step) {
  constexpr std::uint32_t kFirstReserved = 0xfffffff0;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), number);
  return error != std::errc() || end != step.data() + step.size() || number < kFirstReserved;
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::optional<LaunchedRank> launched_rank(const EnvironmentLookup& variable) {
  if (variable("RANK")) return by_torchrun(variable);
  if (variable("OMPI_COMM_WORLD_RANK")) return by_open_mpi(variable);
  const std::optional<std::string> step = variable("SLURM_STEP_ID");
  if (variable("SLURM_PROCID") && step && is_step_of_srun(*step)) return by_slurm(variable);
  return std::nullopt;
}

}  // namespace pipesim
