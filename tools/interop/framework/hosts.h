#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/recipes/recipe.h"
#include "topologies/topology.h"

namespace pipesim {

/// The hosts of a topology, each with so many devices. Frameworks number devices host by host: rank r is
/// device r.
struct Hosts {
  std::vector<std::string> names;
  std::vector<std::string> devices;  ///< by rank: its name
  std::int64_t devices_of_each = 0;
};
/// InputError when hosts have different numbers of devices, or their devices do not follow one another:
/// launchers of frameworks can't start such ranks.
Hosts hosts_of(const Topology& topology);

/// "node0 slots=8", a line for each host: what the launchers of MPI and DeepSpeed read.
std::string host_file(const Hosts& hosts);

/// Returns a CSV file with a line for each rank: its host, its number there, its device, and its coordinates
/// along the recipe's axes. For models whose experts have a mesh of their own, it adds those along ep, etp
/// and edp. The recipe must be complete.
std::string rank_table(const Hosts& hosts, const Recipe& recipe);

/// The call of torchrun up to the program, over as many lines as there are settings. Where there are several
/// hosts, it stands in a script that is started on each, with NODE_RANK.
std::string torchrun_text(const Hosts& hosts);

}  // namespace pipesim
