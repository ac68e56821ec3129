// Run by mpirun: collectives without end, until a rank is killed. Writes its process id to the file
// ARGUMENT.RANK.

#include <fmt/format.h>

#include <fstream>

#include "executor/group_communicator.h"
#include "executor/mpi_plugin.h"
#include "sim/base/errors.h"
#include "sim/base/rng.h"
#include "tests/executor/communicator_conformance.h"

#include <unistd.h>

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

void run(const std::string& file) {
  const auto world = open_mpi_world();
  std::vector<std::string> names;
  for (int e = 0; e < world->endpoints(); ++e) names.push_back(fmt::format("gpu{}", e));
  world->name_endpoints(names);
  std::ofstream(fmt::format("{}.{}", file, world->rank())) << getpid() << "\n";
  call_without_end(*world, world->own_endpoints().front());
}

}  // namespace
}  // namespace pipesim

int main(int /*argc*/, char** argv) {
  try {
    pipesim::run(argv[1]);
  } catch (const pipesim::DeviceError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
