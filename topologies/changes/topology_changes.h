#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology.h"

namespace pipesim {

/// A figure of a topology that can be changed.
struct ChangeableFigure {
  std::string path;   ///< "inter_node.bandwidth"
  std::string now;    ///< its value, "" where there is none
  std::string takes;  ///< what it may become: "a bandwidth, or x2"
};

/// Figures of this topology that change_topology() can change, in the order to list them. Those of single
/// devices and links (slow:NAME, remove:NAME) are one entry each, with the name left open.
std::vector<ChangeableFigure> changeable_figures(const TopologyParts& parts);

/// Changes one figure.
///
/// - `device`: all devices become one of the built-in kinds ("h100" finds H100-SXM5); links stay.
/// - `device.rate` (xF alone), `device.memory`, `device.memory_bandwidth`, `device.launch_overhead`,
///   `device.price` (an hour): of all devices.
/// - `inter_node.bandwidth`, `inter_node.latency`: of links that leave a node. A value is that of the
///   narrowest (the longest latency); all others change by the same factor. Links between NICs and devices
///   become as wide as the NIC's own where they would be narrower and were not before.
/// - `inter_node.nics`: a node has so many; each stands for its share of the bandwidth.
/// - `intra_node.bandwidth`, `intra_node.latency`: of links inside nodes but for those of NICs. A value is
///   that of the widest.
/// - `slow:NAME`: a factor ≥ 1 by which a device, a link ("A-B") or all links of a switch or NIC are slower.
/// - `remove:NAME`: yes or no; a device, a link, a switch or a NIC.
///
/// A value "x2" multiplies. InputError that says what was found and what is allowed.
void change_topology(TopologyParts& parts, std::string_view path, std::string_view value);

/// The topology with changes "PATH=VALUE+PATH=VALUE…", one after the other, under another name; with the same
/// memory margin. InputError as above.
Topology changed_topology(const Topology& topology, std::string_view changes, std::string_view name);

}  // namespace pipesim
