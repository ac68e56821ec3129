#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "executor/communication/communicator.h"
#include "executor/communication/shared_memory.h"
#include "executor/ranks/launched_ranks.h"
#include "executor/ranks/mpi_plugin.h"
#include "executor/ranks/rendezvous.h"
#include "topologies/topology.h"

namespace pipesim {

/// The devices of a topology as threads of this process, or of all processes that mpirun has started.
class DeviceWorlds {
 public:
  /// `over_mpi`: rank r of R has the devices from r·n/R up to (r+1)·n/R. Errors as open_mpi_world.
  DeviceWorlds(const Topology& topology, bool over_mpi);
  /// Divides the devices in the same way among the processes that a launcher has started. These exchange
  /// texts only: worlds() are null. Errors as Rendezvous; InputError when there are fewer devices than ranks.
  DeviceWorlds(const Topology& topology, const RendezvousPlace& place, const LaunchedRank& launched);

  /// By device id; null for devices of other processes.
  [[nodiscard]] std::span<Communicator* const> worlds() const { return worlds_; }
  [[nodiscard]] const std::vector<DeviceId>& local() const { return local_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int ranks() const;
  [[nodiscard]] int rank_of(DeviceId device) const;
  /// Devices of processes of this host with lower ranks.
  [[nodiscard]] int devices_before_on_host() const;

  // Calls of all ranks, from one thread of each.
  void barrier();
  /// Texts of all ranks, in order.
  [[nodiscard]] std::vector<std::string> gather_text(const std::string& text);
  /// The sum over all ranks, in place.
  void add_over_ranks(std::span<float> values);

  /// Called from a thread of its own when another process is known to have died: "rank 2 (node7) died".
  void on_death(std::function<void(const std::string&)> callback);
  /// This rank's activity, for the others' message if this rank dies.
  void set_last_task(const std::string& text);

 private:
  std::mutex mutex_;
  std::function<void(const std::string&)> on_death_;
  std::unique_ptr<World> mpi_;
  int launched_local_rank_ = 0;
  std::unique_ptr<SharedMemory> memory_;
  std::vector<std::unique_ptr<Communicator>> owned_;
  std::vector<Communicator*> worlds_;
  std::vector<DeviceId> local_;
  std::int64_t sums_ = 0;
  std::unique_ptr<Rendezvous> meeting_;  // ends first: its thread calls on_death_
};

}  // namespace pipesim
