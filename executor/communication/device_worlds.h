#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/communication/communicator.h"
#include "executor/communication/shared_memory.h"
#include "executor/ranks/mpi_plugin.h"
#include "topologies/topology.h"

namespace pipesim {

/// The devices of a topology as threads of this process, or of all processes that mpirun has started.
class DeviceWorlds {
 public:
  /// `over_mpi`: rank r of R has the devices from r·n/R up to (r+1)·n/R. Errors as open_mpi_world.
  DeviceWorlds(const Topology& topology, bool over_mpi);

  /// By device id; null for devices of other processes.
  [[nodiscard]] std::span<Communicator* const> worlds() const { return worlds_; }
  [[nodiscard]] const std::vector<DeviceId>& local() const { return local_; }
  [[nodiscard]] int rank() const { return mpi_ ? mpi_->rank() : 0; }
  [[nodiscard]] int ranks() const { return mpi_ ? mpi_->ranks() : 1; }
  [[nodiscard]] int rank_of(DeviceId device) const { return mpi_ ? mpi_->rank_of(device.value) : 0; }
  /// Among the processes of this host.
  [[nodiscard]] int local_rank() const;

  // Calls of all ranks, from one thread of each.
  void barrier();
  /// Texts of all ranks, in order.
  [[nodiscard]] std::vector<std::string> gather_text(const std::string& text);
  /// The sum over all ranks, in place.
  void add_over_ranks(std::span<float> values);

  /// For the others' message should this rank die.
  void set_last_task(const std::string& text);

 private:
  std::unique_ptr<World> mpi_;
  std::unique_ptr<SharedMemory> memory_;
  std::vector<std::unique_ptr<Communicator>> owned_;
  std::vector<Communicator*> worlds_;
  std::vector<DeviceId> local_;
  std::int64_t sums_ = 0;
};

}  // namespace pipesim
