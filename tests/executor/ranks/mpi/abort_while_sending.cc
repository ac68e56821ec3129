// Run by mpirun: rank 0 sends much to all others, and stops everything while they receive. A receive that
// ends all the same must have brought what was sent: who sends must not give its memory away before the
// others know. Says what came of it; the exit status is mpirun's own, which minds that nobody leaves MPI in
// order.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "executor/communication/communicator.h"
#include "executor/communication/group_communicator.h"
#include "executor/ranks/mpi_plugin.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

constexpr std::size_t kElements = std::size_t{8} << 20;
constexpr float kNothing = 0;
constexpr float kSent = 1;
constexpr float kGivenAway = 2;
constexpr int kSomeTag = 7;

// Sends, and stops all ranks in the midst of it.
void send_and_stop(World& world, Communicator& all, std::vector<float>& data) {
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    world.abort("stopped in the midst of it");
  });
  try {
    for (int i = 0; true; ++i) all.broadcast(data.data(), kElements, DataType::Float32, 0, kSomeTag + i);
  } catch (const DeviceError&) {
    std::fill(data.begin(), data.end(), kGivenAway);
  }
  stopper.join();
}

// Receives until all is stopped.
void receive_until_stopped(Communicator& all, std::vector<float>& data) {
  for (int i = 0; true; ++i) {
    std::fill(data.begin(), data.end(), kNothing);
    try {
      all.broadcast(data.data(), kElements, DataType::Float32, 0, kSomeTag + i);
    } catch (const DeviceError&) {
      fmt::print(stderr, "stopped, and all that came before was as it was sent\n");
      return;
    }
    const auto wrong = std::find_if(data.begin(), data.end(), [](float value) { return value != kSent; });
    if (wrong == data.end()) continue;
    fmt::print(stderr, "not what was sent: element {} of message {} is {}\n", wrong - data.begin(), i,
               *wrong);
    return;
  }
}

int run() {
  const auto world = open_mpi_world();
  const auto all = world_communicator(world->transport(world->own_endpoints().front()));
  std::vector<float> data(kElements, kSent);
  world->barrier();
  if (world->rank() == 0) {
    send_and_stop(*world, *all, data);
  } else {
    receive_until_stopped(*all, data);
  }
  // When one rank ends, mpirun kills the others at once.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return 0;
}

}  // namespace
}  // namespace pipesim

int main() {
  try {
    return pipesim::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
