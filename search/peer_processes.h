#pragma once

#include <string>
#include <vector>

namespace pipesim {

/// Processes, on one or several machines, that a launcher has started with the same command line to share its
/// work.
class PeerProcesses {
 public:
  virtual ~PeerProcesses() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int count() const = 0;
  /// Returns the texts of all processes, by rank. All must call it. DeviceError names a process that died,
  /// and what it did last.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  /// Sets what the others are told of this process when it dies.
  virtual void set_activity(const std::string& text) = 0;
};

/// How many processes mpirun has started together with this one, by the variables that it sets; 1 if none.
int processes_of_launcher();

}  // namespace pipesim
