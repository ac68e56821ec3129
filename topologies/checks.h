#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// The fault of a figure of a topology, as "found …, allowed …"; "" when it has none. The bounds are far
/// outside any real system, so a figure beyond them has a wrong unit or wrong zeros.
std::string fault_of_link_bandwidth(BytesPerSecond bandwidth);  ///< 1 MB/s … 900 TB/s
std::string fault_of_price(double per_hour);                    ///< 0 … 1 million
std::string fault_of_latency(Seconds latency);                  ///< 0 … 10 s; also launch overheads
std::string fault_of_memory(Bytes memory);                      ///< 1 MB … 900 TB
std::string fault_of_memory_bandwidth(BytesPerSecond bandwidth);
std::string fault_of_peak(FlopsPerSecond peak);  ///< 1 MFLOP/s … 900 PFLOP/s
std::string fault_of_name(
    std::string_view name);  ///< 1 to 200 bytes, no '*' (a pattern in files), no control bytes
/// At most 900 TB each, fragmentation in [0, 1], and some memory is left.
std::string fault_of_overhead(const MemoryOverhead& overhead);
std::string fault_of_fraction(double fraction);                              ///< in (0, 1]
std::string fault_of_efficiency(const std::vector<EfficiencyPoint>& curve);  ///< ascending, not empty

/// Throws InputError `topology "lab": …` for everything that Topology promises not to accept: the figures
/// above, repeated or empty names, indices out of range, links from a vertex to itself, too many parts,
/// vertices that can't reach each other. Linear in the size of the topology.
void check_parts(const TopologyParts& parts);

}  // namespace pipesim
