#pragma once

#include <map>
#include <string>
#include <vector>

namespace pipesim {

/// The machine and the software that durations were measured with.
struct HostDescription {
  std::string name;                             ///< "node07"
  std::string processor;                        ///< "AMD EPYC 9654 96-Core Processor"
  int cores = 0;                                ///< that the process could use
  std::string kernel;                           ///< "Linux 6.1.0-18-amd64"
  std::map<std::string, std::string> versions;  ///< of libraries and drivers: {"oneDNN", "2.6.3"}
  bool operator==(const HostDescription&) const = default;
};

/// This machine, without versions of libraries, which the code that uses them adds. Unknown fields are empty.
HostDescription this_host();

/// The differences that matter when durations from `measured` are used on `here`, one line each: `processor:
/// measured on "EPYC 9654", here "Xeon 8480"`. Versions are compared where both have them.
std::vector<std::string> differences(const HostDescription& measured, const HostDescription& here);

}  // namespace pipesim
