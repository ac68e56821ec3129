#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "tools/cli/base/command.h"
#include "topologies/files/nccl_topology.h"

namespace pipesim {

/// --device of import, if it was given. UsageError when there is no such kind.
std::optional<DeviceKind> imported_kind_of(const Arguments& arguments);

/// Writes the import to the file that --output names. Writes to `streams.err` what had to be assumed about
/// `source`.
void write_imported(const ImportedTopology& imported, const std::string& source, const Arguments& arguments,
                    Streams& streams);

}  // namespace pipesim
