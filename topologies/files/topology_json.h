#pragma once

#include <string>
#include <string_view>

#include "topologies/topology.h"

namespace pipesim {

/// Reads a topology that a person wrote or to_json() made; docs/files.md describes the form. `source` is
/// the file's name, for messages. InputError `FILE: /json/pointer: what was found, what is allowed`.
Topology parse_topology(std::string_view text, const std::string& source);

/// parse_topology of a file. InputError also when it can't be read.
Topology load_topology(const std::string& path);

/// A kind of device of one's own, from a file {"NAME": {"peak": …, "memory": …, "memory_bandwidth": …}}, with
/// the keys of "device_kinds" of topology files. InputError as above.
DeviceKind load_device_kind(const std::string& path);

/// The whole topology spelled out, device kinds included, an item a line. parse_topology reads it back to an
/// equal topology.
std::string to_json(const Topology& topology);

/// The same in the short forms that people write, as far as they fit: levels, kinds of nodes and their
/// number, patterns of links, device kinds that are built in. parse_topology reads it back to an equal
/// topology.
std::string to_compact_json(const Topology& topology);

}  // namespace pipesim
