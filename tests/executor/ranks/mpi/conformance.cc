// Run by mpirun: the conformance suite of communicators over MPI, with as many devices per rank as the
// argument says.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "executor/communication/group_communicator.h"
#include "executor/ranks/mpi_plugin.h"
#include "tests/executor/communication/communicator_conformance.h"

namespace pipesim {
namespace {

// An empty text, or what went wrong on this rank.
std::string outcome(World& world, const ConformanceCase& conformance) {
  const std::vector<int> own = world.own_endpoints();
  try {
    in_threads(
        static_cast<int>(own.size()),
        [&](int i) {
          const auto all = world_communicator(world.transport(own[static_cast<std::size_t>(i)]));
          conformance.run(*all, 20240000);
        },
        [&](const std::string& reason) { world.abort(reason); });
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// Rank r says r times `bytes`.
void check_gathered_texts(World& world, std::size_t bytes) {
  const std::string own(static_cast<std::size_t>(world.rank()) * bytes,
                        static_cast<char>('a' + world.rank()));
  const std::vector<std::string> texts = world.gather_text(own);
  for (int r = 0; r < world.ranks(); ++r) {
    const std::string expected(static_cast<std::size_t>(r) * bytes, static_cast<char>('a' + r));
    if (texts[static_cast<std::size_t>(r)] != expected) throw std::runtime_error("gathered texts differ");
  }
}

int run_suite(int devices_per_rank) {
  const auto probe = std::getenv("OMPI_COMM_WORLD_SIZE");
  const int ranks = probe == nullptr ? 1 : std::atoi(probe);
  const auto world = open_mpi_world(ranks * devices_per_rank);
  for (const std::size_t bytes : {3000, 1'000'000}) check_gathered_texts(*world, bytes);
  for (const ConformanceCase& conformance : conformance_cases()) {
    world->set_last_task(conformance.name);
    const auto started = std::chrono::steady_clock::now();
    const std::string wrong = outcome(*world, conformance);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - started;
    if (!wrong.empty()) {
      fmt::print(stderr, "rank {}: {}: {}\n", world->rank(), conformance.name, wrong);
      return 1;
    }
    world->barrier();
    if (world->rank() == 0) fmt::print("{}: ok ({:.2f} s)\n", conformance.name, time.count());
  }
  return 0;
}

}  // namespace
}  // namespace pipesim

int main(int argc, char** argv) {
  try {
    return pipesim::run_suite(argc > 1 ? std::atoi(argv[1]) : 1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  }
}
