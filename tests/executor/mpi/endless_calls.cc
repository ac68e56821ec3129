// Run by mpirun: collectives without end, until a rank is killed. Leaves two files: ARGUMENT/process.RANK
// holds the id of the process to kill, ARGUMENT/status.RANK.STATUS says by its name how that ended.

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "executor/group_communicator.h"
#include "executor/mpi_plugin.h"
#include "sim/base/errors.h"
#include "sim/base/rng.h"
#include "tests/executor/communicator_conformance.h"

namespace pipesim {
namespace {

[[noreturn]] void call_without_end(World& world, int endpoint) {
  const auto all = world_communicator(world.transport(endpoint));
  Rng rng(1);
  for (std::int64_t tag = 0; true; ++tag) {
    Call call{static_cast<CallKind>(rng.below(7))};
    call.elements = static_cast<std::int64_t>(rng.below(2) == 0 ? rng.below(100) : rng.below(50000));
    call.root = static_cast<int>(rng.below(static_cast<std::uint64_t>(all->size())));
    call.seed = rng.next();
    world.set_last_task(fmt::format("call {}", tag));
    check_call(*all, call, tag);
  }
}

int run(const std::string& folder) {
  try {
    const auto world = open_mpi_world();
    std::vector<std::string> names;
    for (int e = 0; e < world->endpoints(); ++e) names.push_back(fmt::format("gpu{}", e));
    world->name_endpoints(names);
    std::ofstream(fmt::format("{}/process.{}", folder, world->rank())) << getpid() << "\n";
    call_without_end(*world, world->own_endpoints().front());
  } catch (const DeviceError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

void go_on(int /*signal*/) {}

// A parent that outlives its child and mpirun's SIGTERM, to tell how the child ended.
int run_in_child(const std::string& folder) {
  const std::string rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen(fmt::format("{}/said.{}", folder, rank).c_str(), "w", stderr) == nullptr) return 1;
    return run(folder);
  }
  struct sigaction stay {};
  stay.sa_handler = go_on;
  sigaction(SIGTERM, &stay, nullptr);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ofstream(fmt::format("{}/status.{}.{}", folder, rank, code)) << code << "\n";
  return code;
}

}  // namespace
}  // namespace pipesim

int main(int /*argc*/, char** argv) { return pipesim::run_in_child(argv[1]); }
