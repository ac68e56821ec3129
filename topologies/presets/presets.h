#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "topologies/presets/boxes.h"
#include "topologies/presets/preset_options.h"
#include "topologies/topology.h"

namespace pipesim {

/// A system that pipesim knows by name.
struct TopologyPreset {
  std::string name;
  std::int64_t default_nodes = 1;
  std::int64_t devices_per_node = 1;
  std::string description;  ///< one line
  std::string source;       ///< where the system is described
  void (*add_box)(TopologyDraft&, const BoxPlace&) = nullptr;
  std::int64_t nics = 1;   ///< of a node
  std::int64_t rails = 1;  ///< of network=rail: NIC i is on rail i modulo this
  bool takes_fewer =
      false;  ///< a node may have fewer GPUs: they are on one switch, each with a NIC of its own
};

/// All presets, in the order to list them.
std::span<const TopologyPreset> topology_presets();

/// Makes `nodes` boxes of the preset over a network. The name is the preset's, then ":N" when N is not the
/// default, then the options that are not. InputError unless 1 ≤ nodes, there are at most max_devices
/// devices, nodes may have so few GPUs, and the network suits them.
Topology preset_topology(const TopologyPreset& preset, std::int64_t nodes, const PresetOptions& options = {});

/// A topology from what a person writes: a preset's name, "NAME:N" for N of its nodes, "NAME:N,key=value,…"
/// for other nodes or another network (see preset_options.h), "cpu:N" (see cpu.h),
/// "levels:4@10GB/s,2@1.25GB/s" (see levels.h), or a JSON file (a path that ends in .json, has a slash or
/// exists). "NAME:N+NAME:N" are nodes of several presets on one ideal network. Behind any of them,
/// "+PATH=VALUE" changes a figure (changes/topology_changes.h), one after the other.
/// InputError with "did you mean" otherwise.
Topology make_topology(std::string_view text);

}  // namespace pipesim
