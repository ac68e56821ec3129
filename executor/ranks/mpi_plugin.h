#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/communication/transport.h"

namespace pipesim {

/// Processes ("ranks") that mpirun has started, each with one or several endpoints (devices): rank r of R has
/// those from r·n/R up to (r+1)·n/R of n. Endpoints of one rank exchange data through its memory.
///
/// A rank that dies or closes its world while an error is being thrown makes all calls of the others throw a
/// DeviceError within seconds: `rank 2 (gpu2 on host a) died; its last task was "conv1 forward"`. A process
/// that then does not end within 5 s is ended with exit status 3.
class World {
 public:
  /// A call of all ranks, after which no rank uses transports any more.
  virtual ~World() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  [[nodiscard]] virtual int endpoints() const = 0;
  [[nodiscard]] virtual int rank_of(int endpoint) const = 0;
  [[nodiscard]] virtual std::string host_of(int rank) const = 0;
  /// The endpoints of this rank, ascending.
  [[nodiscard]] virtual std::vector<int> own_endpoints() const = 0;

  /// The transport of an endpoint of this rank. Tags from the smallest 64-bit number up to 15 above it are
  /// the world's own.
  [[nodiscard]] virtual std::shared_ptr<Transport> transport(int endpoint) = 0;

  /// Names of all endpoints for messages ("gpu0"); until then they are called "device 0".
  virtual void name_endpoints(const std::vector<std::string>& names) = 0;
  /// This rank's activity, for the others' message when it dies. Cheap; others see it within 50 ms.
  virtual void set_last_task(const std::string& text) = 0;

  /// All ranks make these calls, one at a time.
  virtual void barrier() = 0;
  virtual std::vector<std::string> gather_text(const std::string& text) = 0;

  /// Makes pending and later exchanges throw a DeviceError, like Transport::abort.
  virtual void abort(const std::string& reason) = 0;
};

/// Whether this process was started by mpirun (or another launcher of MPI programs).
bool started_by_mpi();
/// Why the loaded MPI, which knows of `ranks`, is not the MPI whose launcher started this process, judged by
/// the launcher's variables; "" when it may be.
std::string started_by_another_mpi(int ranks);

/// Starts MPI, once in the life of a process. A call of all ranks, with the same number of endpoints; 0 means
/// one per rank. MPI is loaded from libpipesim_mpi.so, looked for in the folders of PIPESIM_PLUGIN_PATH
/// (separated by colons) and beside the program. SIGTERM is caught from then on, unless the program does so
/// itself. DeviceError when the library or MPI is missing; InputError when there are more ranks than
/// endpoints.
std::unique_ptr<World> open_mpi_world(int endpoints = 0);

}  // namespace pipesim
