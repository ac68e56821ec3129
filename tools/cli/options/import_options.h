#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "tools/cli/base/command.h"
#include "topologies/files/nccl_topology.h"

namespace pipesim {

/// --device of import, if it was given: a built-in kind, or a kind in a file. UsageError when there is no
/// such kind.
std::optional<DeviceKind> imported_kind_of(const Arguments& arguments);

/// Writes the import to the file that --output names, else to `streams.out`. Writes to `streams.err`, and
/// with
/// --json to the object too, what was added, left out or had to be assumed about `source`.
void write_imported(const ImportedTopology& imported, const std::string& source, const Arguments& arguments,
                    Streams& streams);

}  // namespace pipesim
