// process PLACE RANK SIZE TASK: one rank of a rendezvous, which tells on stdout what happens, a line each.
// TASK is "rounds:NUMBER:BYTES", "call" (one call, for which it waits), or "hang" (it never makes that call).

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "tests/executor/ranks/rendezvous/rounds.h"

namespace pipesim {
namespace {

void tell(const std::string& line) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void act(Rendezvous& ranks, const std::string& task) {
  int rounds = 0;
  std::size_t bytes = 0;
  if (std::sscanf(task.c_str(), "rounds:%d:%zu", &rounds, &bytes) == 2) make_rounds(ranks, rounds, bytes);
  if (task == "call") ranks.barrier("the call");
  while (task == "hang") pause();
}

}  // namespace
}  // namespace pipesim

int main(int argc, char** argv) {
  using namespace pipesim;
  if (argc != 5) return 2;
  try {
    RendezvousOptions options;
    options.rank = std::atoi(argv[2]);
    options.size = std::atoi(argv[3]);
    options.on_death = [](int rank, const std::string& /*host*/) { tell("death " + std::to_string(rank)); };
    Rendezvous ranks(parse_rendezvous(argv[1]), options);
    tell("met");
    try {
      act(ranks, argv[4]);
    } catch (const std::exception& error) {
      tell(error.what());
      while (true) pause();  // until the test has heard all
    }
    tell("done");
    return 0;
  } catch (const std::exception& error) {
    tell(error.what());
    return 3;
  }
}
